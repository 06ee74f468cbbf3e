//! Buffers of what comes before it is needed: unexpected messages, and notifications of writes
//! under way. Also a count of answers that the peer has not read.

use std::collections::VecDeque;

use foldhash::HashMap;
use tcpx_protocol::peer::one_sided::MAX_ACTIVE_REQUESTS;

use crate::error::{Error, MemoryUnavailable, Result};

/// Bytes that wait for their receive or their write, by the numbers that the protocol has for them.
/// The protocol bounds how many they are.
#[derive(Debug, Default)]
pub(super) struct MessageBuffers(HashMap<u64, Vec<u8>>);

impl MessageBuffers {
    /// Copies bytes in.
    ///
    /// # Errors
    /// [`Error::MemoryUnavailable`] when the system has no memory for them.
    pub(super) fn keep(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let mut kept = Vec::new();
        let made = kept.try_reserve_exact(bytes.len()).and_then(|()| self.0.try_reserve(1));
        made.map_err(|_| Error::MemoryUnavailable(MemoryUnavailable::Operations { count: 1 }))?;
        kept.extend_from_slice(bytes);
        self.0.insert(number, kept);
        Ok(())
    }

    /// Takes bytes out.
    pub(super) fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        self.0.remove(&number)
    }
}

/// Bytes waiting on the link up to which answers are not counted.
const FEW_BYTES: usize = 1 << 20;
/// Largest number of unread answers. A peer that keeps to its number of requests of each kind
/// leaves fewer unread.
const MOST: usize = 8 * MAX_ACTIVE_REQUESTS;

/// Answers that the peer has not read: their ends in the stream of the link, oldest first.
#[derive(Debug, Default)]
pub(super) struct UnreadAnswers(VecDeque<u64>);

impl UnreadAnswers {
    /// Counts an answer that is queued behind `waiting` bytes. The kernel has taken `taken` bytes.
    /// Returns whether the peer may leave this many answers unread.
    pub(super) fn add(&mut self, taken: u64, waiting: usize) -> bool {
        if waiting <= FEW_BYTES {
            self.0 = VecDeque::new();
            return true;
        }
        while self.0.front().is_some_and(|end| *end <= taken) {
            self.0.pop_front();
        }
        self.0.push_back(taken + waiting as u64);
        self.0.len() <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_while_much_waits_and_until_the_kernel_has_them() {
        let mut unread = UnreadAnswers::default();
        let much = FEW_BYTES + 1;
        assert!((0..2 * MOST).all(|_| unread.add(0, FEW_BYTES)), "little waits");
        assert!((0..MOST).all(|number| unread.add(0, much + 20 * number)));
        // The kernel takes one for each that is queued.
        let taken = |number: usize| (much + 20 * number) as u64;
        assert!((0..MOST).all(|number| unread.add(taken(number), much + 20 * MOST)));
        assert!(!unread.add(taken(MOST - 1), much + 20 * MOST + 20), "the peer does not read");
        assert!(unread.add(1 << 40, 9) && unread.0.capacity() == 0, "it has read all");
    }
}
