//! GPUs, their memory and their streams, for moving bytes.
//!
//! The driver library is loaded when a [`CudaGpu`] is opened. Without a driver every call returns
//! [`CudaError::NoDriver`], and nothing links against CUDA. Every type holds its GPU's primary
//! context and works from any thread. It leaves the calling thread's current context as it was,
//! except while the guard of [`CudaGpu::enter`] lives.
//!
//! A GPU's memory, if there is a GPU:
//!
//! ```
//! use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, PAGE_BYTES};
//!
//! fn round_trip() -> Result<[u8; 5], CudaError> {
//!     let gpu = CudaGpu::open(0)?;
//!     let buffer = DeviceBuffer::new(&gpu, 5)?;
//!     assert_eq!((buffer.bytes(), buffer.address() % PAGE_BYTES), (PAGE_BYTES, 0));
//!     buffer.copy_from_host(0, b"hello")?;
//!     let mut copy = [0; 5];
//!     buffer.copy_to_host(0, &mut copy)?;
//!     Ok(copy)
//! }
//!
//! match round_trip() {
//!     Ok(copy) => assert_eq!(&copy, b"hello"),
//!     // Where there is no driver, or no GPU, that is the answer: nothing panics or waits.
//!     Err(error) => println!("skipped: {error}"),
//! }
//! ```
//!
//! # Waiting
//! Copies and fills that return when they are done ([`DeviceBuffer`], [`CudaGpu::read`],
//! [`CudaGpu::write`]) and the freeing of memory have no deadline, because none could be kept. The
//! driver copies from and to ordinary memory inside the call that queues the copy, where there is
//! nothing to poll yet. The memory of an abandoned copy cannot be released, since freeing it waits
//! as well. These calls wait for the GPU's copy engine alone, on a stream of their own. The driver
//! ends the wait with an error when the GPU is lost. They serve setup, and callers that request
//! bytes. Code that moves chunks queues its copies on a [`MarkedStream`] and reads how far it is.

mod access;
mod device_buffer;
mod dma_buf;
mod driver;
#[cfg(any(test, feature = "test-gpu"))]
mod driver_calls;
mod event;
mod extent;
mod gpu;
#[cfg(any(test, feature = "test-gpu"))]
mod held_stream;
mod marked_stream;
mod module;
mod near_gpu;
mod pinned_buffer;
#[cfg(any(test, feature = "test-gpu"))]
mod read_only_mapping;
mod registered_memory;
mod stream;
#[cfg(any(test, feature = "test-gpu"))]
mod test_gpu;

pub use access::{
    allocation_end, host_alias, is_device_memory, is_device_range, is_host_memory, is_readable,
    is_writable, ordinal_of,
};
pub use device_buffer::DeviceBuffer;
pub use dma_buf::{DmaBuf, check_exports, is_exportable};
pub use driver::CudaError;
#[cfg(any(test, feature = "test-gpu"))]
pub use driver_calls::{QUEUEING_CALLS, driver_calls, driver_calls_since};
pub use event::Event;
pub use extent::PAGE_BYTES;
pub use gpu::{CudaGpu, CurrentContext};
#[cfg(any(test, feature = "test-gpu"))]
pub use held_stream::HeldStream;
pub use marked_stream::{Doubt, Mark, MarkedStream};
pub use module::{Function, Module};
pub use pinned_buffer::PinnedBuffer;
#[cfg(any(test, feature = "test-gpu"))]
pub use read_only_mapping::ReadOnlyMapping;
pub use registered_memory::RegisteredMemory;
pub use stream::Stream;
#[cfg(any(test, feature = "test-gpu"))]
pub use test_gpu::test_gpu;
