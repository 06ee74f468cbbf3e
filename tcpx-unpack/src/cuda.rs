//! GPUs, their memory and their streams, as far as moving bytes needs them.
//!
//! The driver library is loaded when a [`CudaGpu`] is opened; without one every call answers
//! [`CudaError::NoDriver`], and nothing links against CUDA. Every type holds its GPU's primary
//! context, works from any thread, and leaves the calling thread's current context as it was.

mod access;
mod device_buffer;
mod driver;
mod event;
mod gpu;
mod module;
mod pinned_buffer;
mod stream;
#[cfg(test)]
mod test_gpu;

pub use device_buffer::DeviceBuffer;
pub use driver::CudaError;
pub use gpu::CudaGpu;
pub use pinned_buffer::PinnedBuffer;

pub(crate) use access::{is_host_memory, is_readable};
pub(crate) use event::Event;
pub(crate) use module::{Function, Module};
pub(crate) use stream::Stream;
#[cfg(test)]
pub(crate) use test_gpu::test_gpu;

/// Size of the pages that device buffers start and end on: the plugin registers whole ones.
pub const PAGE_BYTES: u64 = 4096;
