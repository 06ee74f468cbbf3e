//! Moving bytes: the lanes of a channel, and what they carry.
//!
//! - `post`, `memory_range`, `post_options`: what a program posts. `transfers`: what it waits for,
//!   in numbers. `transfer_cell`: one of them, as its owner sees it. `transfer_counts`: its
//!   numbers. `round_listener`: who hears of its end.
//! - `plan`: what travels together. `stripe`: a plan, cut into chunks and dealt to channels.
//!   `stripe_queue`: those of one lane.
//! - `send_lane`, `recv_lane`: one comm each, with the chunks on their way through it.
//! - `window`: requests in flight, in the order that the plugin demands.
//! - `job`: what is copied for one chunk. `batch`: what is unpacked, or gathered, by one submit;
//!   `collected`: what of it is not submitted yet.
//! - `step`: how much a lane does at once.
//! - `descriptor_splitter`: the unpack descriptors of a chunk, message by message.
//! - `pieces`: where the bytes of a list lie. `piece_cursor`: how they are cut into plans.
//!   `stretch`: some of them, to be copied.
//! - `gathering`: what is worth copying together. `staging`, `gather`: where scattered small
//!   messages are. `staging_pool`: the memory for it that all lanes have together.

pub(crate) mod batch;
mod collected;
mod descriptor_splitter;
mod gather;
pub(crate) mod gathering;
pub(crate) mod job;
pub(crate) mod memory_range;
pub(crate) mod piece_cursor;
pub(crate) mod pieces;
pub(crate) mod plan;
pub(crate) mod post;
pub(crate) mod post_options;
pub(crate) mod recv_lane;
pub(crate) mod round_listener;
pub(crate) mod send_lane;
mod staging;
pub(crate) mod staging_pool;
pub(crate) mod step;
pub(crate) mod stretch;
pub(crate) mod stripe;
pub(crate) mod stripe_queue;
#[cfg(all(test, feature = "soft"))]
mod tests;
pub(crate) mod transfer_cell;
pub(crate) mod transfer_counts;
pub(crate) mod transfers;
mod window;
