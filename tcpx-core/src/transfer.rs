//! Moving bytes: the lanes of a channel, and what they carry.
//!
//! - `post`, `memory_range`, `post_options`: what a program posts. `transfers`: what it waits for,
//!   in numbers. `transfer_cell`: one of them, as its owner sees it. `transfer_counts`: its
//!   numbers. `round_listener`: who hears of its end.
//! - `send_lane`, `recv_lane`: one comm each, with the chunks on their way through it.
//! - `window`: requests in flight, in the order that the plugin demands.
//! - `job`: what is copied for one chunk. `batch`: what is unpacked, or gathered, by one submit;
//!   `collected`: what of it is not submitted yet.
//! - `step`: how much a lane does at once.
//! - `descriptor_splitter`: the unpack descriptors of a chunk, message by message.
//! - `staging`, `gather`: where scattered small messages are, to be copied together.
//!   `staging_pool`: the memory for it that all lanes have together.

pub(crate) mod batch;
mod collected;
mod descriptor_splitter;
mod gather;
pub(crate) mod job;
pub(crate) mod memory_range;
pub(crate) mod post;
pub(crate) mod post_options;
pub(crate) mod recv_lane;
pub(crate) mod round_listener;
pub(crate) mod send_lane;
mod staging;
pub(crate) mod staging_pool;
pub(crate) mod step;
#[cfg(all(test, feature = "soft"))]
mod tests;
pub(crate) mod transfer_cell;
pub(crate) mod transfer_counts;
pub(crate) mod transfers;
mod window;
