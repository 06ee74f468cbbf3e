//! Queue of the messages whose bytes travel on the link, in chunks. Pure.
//!
//! Each sends a chunk by turns, and frames that wait go between two chunks: neither a long message
//! nor many of them hold up what is short.

use std::collections::VecDeque;

use crate::types::OpKey;

/// Messages that send their bytes on the link, in the order of their turns.
#[derive(Debug, Default)]
pub(in super::super) struct LinkQueue {
    messages: VecDeque<OpKey>,
    /// Whether something else was sent since the last chunk.
    comes_first: bool,
}

impl LinkQueue {
    /// Queues a message, whose turn comes last.
    pub(in super::super) fn push(&mut self, op: OpKey) {
        self.messages.push_back(op);
    }

    /// Returns whether no message waits.
    #[inline]
    pub(in super::super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the message that has its turn.
    pub(in super::super) fn front(&self) -> Option<OpKey> {
        self.messages.front().copied()
    }

    /// Takes out the message that has its turn: nothing of it is sent.
    pub(in super::super) fn pop(&mut self) {
        self.messages.pop_front();
    }

    /// Notes that a chunk of the message that has its turn is sent.
    pub(in super::super) fn sent_chunk(&mut self, is_last: bool) {
        self.comes_first = false;
        match is_last {
            true => self.pop(),
            false => self.messages.rotate_left(1),
        }
    }

    /// Notes that another frame is sent.
    pub(in super::super) fn sent_other(&mut self) {
        self.comes_first = true;
    }

    /// Returns whether a chunk goes before other frames that wait.
    pub(in super::super) fn comes_first(&self) -> bool {
        self.comes_first
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn messages_take_turns_chunk_by_chunk() {
        let mut keys = SlotMap::<OpKey, ()>::with_key();
        let [a, b] = [0; 2].map(|_| keys.insert(()));
        let mut queue = LinkQueue::default();
        [a, b].into_iter().for_each(|op| queue.push(op));
        let turns = [false, false, true, false, true].map(|is_last| {
            let op = queue.front();
            queue.sent_chunk(is_last);
            op
        });
        assert_eq!(turns, [a, b, a, b, b].map(Some));
        assert!(queue.is_empty() && queue.front().is_none());
    }

    /// A chunk goes first once after another frame, and not twice.
    #[test]
    fn chunks_and_other_frames_alternate() {
        let mut queue = LinkQueue::default();
        queue.push(OpKey::default());
        assert!(!queue.comes_first());
        queue.sent_other();
        assert!(queue.comes_first());
        queue.sent_chunk(false);
        assert!(!queue.comes_first());
    }
}
