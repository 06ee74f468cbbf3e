//! Backends that copy the fragments of arrived chunks from a bounce buffer to their destinations.
//!
//! A receive over a TCP plugin ends with its bytes scattered over a *bounce buffer*, a few KiB at a
//! time. A list of [`tcpx_rx::UnpackDescriptor`]s gives the destination of each fragment. This
//! crate moves the fragments. [`open`] picks a backend for a kind of memory. The [`Unpack`] that it
//! returns takes [`UnpackJob`]s and reports which of them are finished.
//!
//! | backend | ordinary memory | CUDA memory |
//! |---|---|---|
//! | [`Backend::Host`] | `memcpy`, at once or by threads | to pinned memory, gathered, up |
//! | [`Backend::D2d`] | – | one asynchronous copy for each extent of neighbouring fragments |
//! | [`Backend::Kernel`] | – | one kernel for all fragments of all jobs |
//!
//! On a GPU [`Choice::Auto`] is the kernel, and a copy by the driver where a submit is one short
//! piece of host memory.
//!
//! ```
//! use tcpx_rx::UnpackDescriptor;
//! use tcpx_unpack::{Choice, MemoryKind, UnpackJob, open};
//!
//! let bounce = *b"world..hello ...";
//! let mut message = [0_u8; 11];
//! let descriptors = [
//!     UnpackDescriptor { src_off: 7, len: 6, dst_off: 0 },
//!     UnpackDescriptor { src_off: 0, len: 5, dst_off: 6 },
//! ];
//! let job = UnpackJob::new(&descriptors)
//!     .with_bounce(bounce.as_ptr().expose_provenance() as u64, bounce.len() as u64)
//!     .with_destination(message.as_mut_ptr().expose_provenance() as u64, message.len() as u64);
//! let mut unpack = open(Choice::Auto, MemoryKind::Host)?.unpack;
//! // SAFETY: both arrays are valid and unused until the ticket is finished.
//! let ticket = unsafe { unpack.submit(&[job]) }?;
//! while unpack.poll()? < ticket {}
//! assert_eq!(&message, b"hello world");
//! # Ok::<(), tcpx_unpack::UnpackError>(())
//! ```
//!
//! The crate never waits for a peer, and never blocks in [`Unpack::poll`]. It allocates nothing for
//! a chunk once it is warm. It trusts no length: every descriptor is checked against its job before
//! the first byte moves.

pub use tcpx_cuda as cuda;

mod auto;
mod bounce_memo;
mod choice;
mod copy_queue;
mod copy_stream;
mod copy_threads;
mod d2d;
mod error;
mod extent;
mod host_memory;
mod job;
mod kernel;
mod open;
mod staged;
mod threaded;
mod ticket;
mod unpack;

pub use choice::{Backend, Choice, MemoryKind, UnknownChoice};
pub use error::{Side, UnpackError};
pub use job::UnpackJob;
#[doc(hidden)]
pub use kernel::Cutter;
pub use open::{OpenedBackend, open, open_with_threads};
pub use ticket::Ticket;
pub use unpack::{OnFinished, Unpack};
