//! Lanes of a channel, and the bytes that they move. The module also holds what a program posts,
//! and the counts of a transfer.
//!
//! - `transfers`: the transfers that a program waits for, in numbers. `transfer_cell`: one
//!   transfer, as its owner sees it, and the listener that is notified of its end.
//! - `send_lane`, `recv_lane`: one comm each, with the chunks on their way through it.
//! - `lost_lane`: what a lane of a lost channel was given and has not finished.
//! - `window`: requests in flight, in the order that the plugin demands, and the limit of what a
//!   lane does at once.
//! - `job`: copies for one chunk, and those that are not submitted yet. `batch`: copies that are
//!   unpacked, or gathered, by one submit.
//! - `descriptor_splitter`: the unpack descriptors of a chunk, message by message.
//! - `gather`: places of scattered small messages that are copied together. `staging_pool`: the
//!   memory for gathering that all lanes share, and a lane's part. `lane_stagings`: the parts of a
//!   lane.
//! - `link_buffers`: memory for short messages between the link and a GPU. `link_copies`: their
//!   copies that are under way, and what waits for them.

pub(crate) mod batch;
mod descriptor_splitter;
mod gather;
pub(crate) mod job;
mod lane_stagings;
pub(crate) mod link_buffers;
pub(crate) mod link_copies;
pub(crate) mod lost_lane;
pub(crate) mod recv_lane;
pub(crate) mod send_lane;
pub(crate) mod staging_pool;
#[cfg(all(test, feature = "soft"))]
mod tests;
pub(crate) mod transfer_cell;
pub(crate) mod transfers;
pub(crate) mod window;

use std::time::Duration;

use tcpx_protocol::types::memory::MemoryId;

/// Send or receive to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The registration that the bytes lie in.
    pub memory: MemoryId,
    /// Byte offset in the registration.
    pub offset: u64,
    /// Bytes. The other end must post the same number.
    pub bytes: u64,
    /// Tag. The other end's post with the same tag is the counterpart; equal tags match in the
    /// order of posting.
    pub tag: i64,
}

/// A range of a registration of this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// The registration.
    pub memory: MemoryId,
    /// Byte offset in it.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Options of a post of an [`Operation`](crate::Operation), beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostOptions<'a> {
    /// Bytes that the peer receives when all bytes are in place.
    pub notification: Option<&'a [u8]>,
    /// Longest time that it may take; `None`: no limit.
    pub timeout: Option<Duration>,
}

impl<'a> PostOptions<'a> {
    /// Sends these bytes to the peer when all bytes of the operation are in place.
    #[must_use]
    pub fn notification(self, notification: &'a [u8]) -> Self {
        Self { notification: Some(notification), ..self }
    }

    /// Gives up what has not ended after this time, which then ends with
    /// [`Error::Expired`](crate::Error::Expired).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}

/// Numbers of a transfer: of its whole life, or of its last round.
///
/// While operations go on, the numbers may be a few operations apart from each other, as if they
/// had been read one after the other. What is done is never more than what was posted, and once all
/// operations have ended everything is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferCounts {
    /// Sends and receives that were posted.
    pub operations_posted: u64,
    /// Number of those that ended, in whatever way.
    pub operations_done: u64,
    /// Chunks of all matched operations. One that several small messages share counts for each of
    /// them.
    pub chunks_posted: u64,
    /// Chunks sent, or received and unpacked.
    pub chunks_done: u64,
    /// Bytes of those chunks.
    pub bytes_done: u64,
}

impl TransferCounts {
    /// Returns the counts since the counts were `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            operations_posted: self.operations_posted - before.operations_posted,
            operations_done: self.operations_done - before.operations_done,
            chunks_posted: self.chunks_posted - before.chunks_posted,
            chunks_done: self.chunks_done - before.chunks_done,
            bytes_done: self.bytes_done - before.bytes_done,
        }
    }
}
