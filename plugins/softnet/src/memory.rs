//! Memory that bytes move from and to: the callers' own, and the bounce region.
//!
//! - `piece`: a range of memory that bytes may move from or to
//! - `io_list`: socket calls on pieces
//! - `registration`: memory that a caller has registered
//! - `nic_source`: place where a NIC finds bytes that it sends
//! - `region`: the memory of a bounce region; `nic_gpu_memory`: for a GPU's memory that a NIC
//!   writes to; `ring_memory`: for such memory of the host
//! - `page_pool`: free and used pages of a region. Pure
//! - `bounce_buffer`: a region with its page pool
//! - `receive_pages`: the pages of one device receive, and its unpack entries
//! - `unpack_queue`: the queue that shows the consumer where the bytes are
//! - `device_memory`: kind of device memory: a GPU's, or ordinary memory that stands in for it
//! - `pooled`, `idle_buffers`: GPU and pinned memory that comms use one after the other
//! - `stager`: copies from a GPU before sending, or for receives into host memory; `stager_slot`:
//!   made ahead of the first send
//! - `uploader`: copies to a GPU after receiving
//! - `copies`: parts that both have in common

mod bounce_buffer;
mod copies;
mod device_memory;
mod idle_buffers;
mod io_list;
mod nic_gpu_memory;
mod nic_source;
mod page_pool;
mod piece;
mod pooled;
mod receive_pages;
mod region;
mod registration;
mod ring_memory;
mod stager;
mod stager_slot;
mod unpack_queue;
mod uploader;

pub(crate) use bounce_buffer::BounceBuffer;
pub use bounce_buffer::PoolStats;
pub use copies::{StagingStats, staging_stats};
pub use device_memory::{BounceMemory, DeviceMemory};
pub(crate) use device_memory::{cuda_failure, gpu_of_thread, ordinal_of_thread};
pub(crate) use io_list::{IoList, IoOutcome};
pub(crate) use nic_gpu_memory::NicGpuMemory;
pub(crate) use nic_source::NicSource;
pub(crate) use page_pool::PageRange;
pub(crate) use piece::Piece;
pub(crate) use receive_pages::{ReceivePages, entries, pages_of};
pub(crate) use region::{DiscardOutcome, Region};
pub(crate) use registration::{BindError, MemoryKind, Registration};
#[cfg(test)]
pub(crate) use stager::idle_stream;
pub(crate) use stager::{CopyMark, Staged, Stager};
pub(crate) use stager_slot::StagerSlot;
pub(crate) use unpack_queue::UnpackQueue;
pub(crate) use uploader::Uploader;
