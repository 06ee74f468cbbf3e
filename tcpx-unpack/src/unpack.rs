#![allow(unsafe_code)]
//! The trait of all backends.

use crate::choice::Backend;
use crate::error::UnpackError;
use crate::job::UnpackJob;
use crate::ticket::Ticket;

/// What an unpacker calls, on any of its threads, when something has finished. It must not wait,
/// and not call the unpacker.
pub type OnFinished = Box<dyn Fn() + Send + Sync>;

/// Copies fragments to their destinations.
///
/// An asynchronous backend still reads the bounce buffers after `submit` has returned. So give a
/// chunk's pages back to the plugin only once [`poll`](Self::poll) has reached its ticket
/// (docs/plugin-contract.md §2.10). Submits finish in the order in which they were made.
///
/// Before an unpacker is dropped, [`shutdown`](Self::shutdown) says whether anything that it
/// started still touches memory. Dropping one that has not finished frees nothing that its GPU may
/// use.
pub trait Unpack: Send {
    /// The way this unpacker copies.
    fn backend(&self) -> Backend;

    /// Starts copying all jobs, and returns at once where the backend is asynchronous. Never waits,
    /// unless the kernel has to copy more than 128 MiB or 32,768 fragments.
    ///
    /// # Errors
    /// [`UnpackError::Busy`] while too much is under way: nothing was touched.
    /// A descriptor that leaves its job's memory, or a job whose memories cannot be right, is
    /// reported before anything is copied, and the unpacker stays usable. Any other error means
    /// that some jobs may have been copied, and that the unpacker will not recover.
    ///
    /// # Safety
    /// For every job, until [`poll`](Self::poll) has reached the returned ticket or
    /// [`shutdown`](Self::shutdown) has answered true (after an error: until the latter):
    /// - `bounce..bounce + bounce_bytes` is memory of the kind the unpacker was opened for, or, for
    ///   a GPU, any that its driver can copy from, such as pinned host memory; it stays readable,
    ///   and nobody writes the fragments;
    /// - `dst..dst + dst_bytes` is memory of the kind the unpacker was opened for; it stays
    ///   writable, and nobody else reads or writes the fragments' destinations.
    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError>;

    /// The newest finished ticket; everything up to it is finished too. Never blocks.
    ///
    /// # Errors
    /// Something that was submitted earlier has failed. Every later call reports it as well.
    fn poll(&mut self) -> Result<Ticket, UnpackError>;

    /// Ends the unpacker: nothing can be submitted any more. True when nothing that it started
    /// touches memory, also after a failure; while it answers false, ask again. Never blocks.
    ///
    /// A GPU that hangs never lets it become true. Who asks decides how long to wait.
    fn shutdown(&mut self) -> bool;

    /// Asks to be told, once and before the first submit. Whether the unpacker will tell, each time
    /// when [`poll`](Self::poll) or [`shutdown`](Self::shutdown) would answer something new; one
    /// that does not has to be asked again and again.
    fn on_finished(&mut self, on_finished: OnFinished) -> bool {
        drop(on_finished);
        false
    }
}
