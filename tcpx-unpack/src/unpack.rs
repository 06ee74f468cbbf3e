#![allow(unsafe_code)]
//! Trait of all backends.

use crate::choice::Backend;
use crate::error::UnpackError;
use crate::job::UnpackJob;
use crate::ticket::Ticket;

/// Callback of an unpacker, on any of its threads, when a submit has finished. It must not wait,
/// and must not call the unpacker.
pub type OnFinished = Box<dyn Fn() + Send + Sync>;

/// Backend that copies fragments to their destinations.
///
/// An asynchronous backend still reads the bounce buffers after `submit` has returned. Give a
/// chunk's pages back to the plugin only once [`poll`](Self::poll) has reached its ticket
/// (docs/plugin-contract.md §2.10). Submits finish in the order in which they were made.
///
/// Before an unpacker is dropped, [`shutdown`](Self::shutdown) returns whether its work no longer
/// touches memory. Dropping an unpacker that has not finished frees nothing that its GPU may use.
pub trait Unpack: Send {
    /// Returns the backend of this unpacker.
    fn backend(&self) -> Backend;

    /// Starts copying all jobs, and returns at once where the backend is asynchronous. Never waits,
    /// unless the kernel has to copy more than 128 MiB or 32,768 fragments.
    ///
    /// # Errors
    /// Returns [`UnpackError::Busy`] while too much is in flight: nothing was touched. A descriptor
    /// that leaves its job's memory, or a job whose memories cannot be right, gives an error before
    /// anything is copied, and the unpacker stays usable. Any other error means that some jobs may
    /// have been copied, and that the unpacker will not recover.
    ///
    /// # Safety
    /// For every job, until [`poll`](Self::poll) has reached the returned ticket or
    /// [`shutdown`](Self::shutdown) has answered true (after an error: until the latter):
    /// - `bounce..bounce + bounce_bytes` is memory of the kind the unpacker was opened for, or, for
    ///   a GPU, any that its driver can copy from, such as pinned host memory; it stays readable,
    ///   and nothing writes the fragments;
    /// - `dst..dst + dst_bytes` is memory of the kind the unpacker was opened for; it stays
    ///   writable, and nothing else reads or writes the fragments' destinations.
    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError>;

    /// Returns the newest finished ticket; all earlier tickets are finished too. Never blocks.
    ///
    /// # Errors
    /// Returns the error of an earlier submit that has failed. Every later call reports it as well.
    fn poll(&mut self) -> Result<Ticket, UnpackError>;

    /// Ends the unpacker: nothing can be submitted any more. Returns true when its work touches no
    /// memory any more, also after a failure. Call it again while it returns false. Never blocks.
    ///
    /// With a GPU that hangs it never returns true. The caller decides how long to wait.
    fn shutdown(&mut self) -> bool;

    /// Sets the callback, once and before the first submit. Returns whether the unpacker will call
    /// it each time [`poll`](Self::poll) or [`shutdown`](Self::shutdown) would return something
    /// new. Without the callback, the caller has to poll.
    fn on_finished(&mut self, on_finished: OnFinished) -> bool {
        drop(on_finished);
        false
    }
}
