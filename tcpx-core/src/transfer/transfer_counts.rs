//! A transfer in numbers.

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
    /// Those that ended, in whatever way.
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
    /// What was counted since the counts were `before`.
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
