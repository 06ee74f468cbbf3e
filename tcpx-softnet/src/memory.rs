//! Memory that bytes move from and to, the caller's and the bounce region.
//!
//! - `region`: pieces of memory, the bounce region, and socket calls on them
//! - `page_pool`: which pages of the bounce region are free
//! - `bounce`: the bounce region with its page pool
//! - `landing`: the pages of one device receive
//! - `registration`: registered memory
//! - `unpack_queue`: the queue that tells the consumer where bytes lie
//! - `device`: what device memory is
//! - `stager`: copies down from a GPU before sending
//! - `uploader`: copies up to a GPU after receiving
//! - `copy_clock`: how long such copies were under way

mod bounce;
mod copy_clock;
mod device;
mod landing;
mod page_pool;
mod region;
mod registration;
mod stager;
mod unpack_queue;
mod uploader;

pub(crate) use bounce::Bounce;
pub use bounce::PoolStats;
pub use copy_clock::{StagingStats, staging_stats};
pub use device::{BounceMemory, DeviceMemory};
pub(crate) use device::{failed, gpu_of_thread};
pub(crate) use landing::{Landing, entries, pages_of};
pub(crate) use page_pool::Run;
pub(crate) use region::{IoList, Moved, Piece};
pub(crate) use registration::{MemoryKind, Registration};
pub(crate) use stager::{Staged, Stager};
pub(crate) use unpack_queue::UnpackQueue;
pub(crate) use uploader::Uploader;
