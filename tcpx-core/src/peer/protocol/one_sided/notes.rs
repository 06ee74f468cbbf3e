//! Notifications, both ways: which may be sent, and which are due. Pure.
//!
//! A receiver keeps what its program has not taken. So a sender may only send what there is room
//! for: it counts what it sends, and the receiver says what was taken. None is dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::completions::notification_queue::note_cost as cost;

/// The books of one end. Costs are sums since the link began.
#[derive(Debug)]
pub(in crate::peer::protocol) struct Notes {
    /// Room at each end.
    buffer: u64,
    /// Room here for those that wait.
    queue_room: u64,
    /// What this end has sent, and what the peer's program has taken of it.
    sent: u64,
    sent_taken: u64,
    /// What has come, what the program has taken of it, what nobody gets, and what of both the peer
    /// knows.
    came: u64,
    taken: u64,
    dropped: u64,
    told: u64,
    /// Those that wait, oldest first.
    queue: VecDeque<Arc<[u8]>>,
    queued: u64,
    /// The room was used last for the note of a write, while others waited.
    owes_turn: bool,
    /// Those that have come and belong to writes under way.
    pub(super) numbers_used: u64,
}

impl Notes {
    pub(super) fn new(buffer: u64, queue_room: u64) -> Self {
        Self {
            buffer,
            queue_room,
            sent: 0,
            sent_taken: 0,
            came: 0,
            taken: 0,
            dropped: 0,
            told: 0,
            queue: VecDeque::new(),
            queued: 0,
            owes_turn: false,
            numbers_used: 0,
        }
    }

    /// Whether one of so many bytes may be sent now.
    pub(super) fn may_send(&self, bytes: usize) -> bool {
        self.sent - self.sent_taken + cost(bytes) <= self.buffer
    }

    /// Whether that of a write, of so many bytes, may be sent now. Writes and those that wait by
    /// themselves take turns, however long they are: neither starves the other where the peer's
    /// program takes them slowly.
    pub(super) fn may_send_with_write(&self, bytes: usize) -> bool {
        self.may_send(bytes) && !self.owes_turn
    }

    /// That of a write is sent.
    pub(super) fn send_with_write(&mut self, bytes: usize) {
        self.sent += cost(bytes);
        self.owes_turn = !self.queue.is_empty();
    }

    /// Puts one behind those that wait.
    pub(super) fn push(&mut self, note: Arc<[u8]>) {
        self.queued += cost(note.len());
        self.queue.push_back(note);
    }

    /// Whether one more of so many bytes may wait here.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queued + cost(bytes) <= self.queue_room
    }

    /// What those cost that wait.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether the oldest of those that wait may be sent.
    pub(super) fn has_next(&self) -> bool {
        self.queue.front().is_some_and(|note| self.may_send(note.len()))
    }

    /// The oldest of those that wait, if it may be sent. It counts as sent.
    pub(super) fn next(&mut self) -> Option<Arc<[u8]>> {
        let bytes = self.queue.front()?.len();
        if !self.may_send(bytes) {
            return None;
        }
        self.queued -= cost(bytes);
        self.sent += cost(bytes);
        self.owes_turn = false;
        self.queue.pop_front()
    }

    /// The peer's program has taken so much of what this end has sent. Whether that can be.
    pub(super) fn handle_taken(&mut self, cost: u64) -> bool {
        let is_possible = (self.sent_taken..=self.sent).contains(&cost);
        if is_possible {
            self.sent_taken = cost;
        }
        is_possible
    }

    /// One of so many bytes has come. Whether the peer may send it.
    pub(super) fn handle_note(&mut self, bytes: usize) -> bool {
        self.came += cost(bytes);
        self.came - self.told <= self.buffer
    }

    /// The program has taken so much, all in all. The sum that the peer is to be told.
    pub(super) fn take(&mut self, taken: u64) -> u64 {
        self.taken = taken;
        self.told = self.taken + self.dropped;
        self.told
    }

    /// Nobody gets one of so many bytes that has come. The sum that the peer is to be told, if it
    /// is worth a frame: a sender of which all is gone may always send the longest there is,
    /// although a quarter of the buffer may be taken by then that this end was not told of.
    pub(super) fn drop_note(&mut self, bytes: usize) -> Option<u64> {
        self.dropped += cost(bytes);
        let gone = self.taken + self.dropped;
        (gone - self.told >= self.buffer / 8).then(|| self.take(self.taken))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{LEAST_NOTIFICATION_BYTES, MAX_NOTIFICATION_BYTES};

    #[test]
    fn whoever_sends_more_than_there_is_room_for_is_found_out() {
        let mut notes = Notes::new(1000, 1000);
        assert!(notes.handle_note(436) && notes.handle_note(436) && !notes.handle_note(0));
        assert!(!notes.handle_taken(1), "nothing was sent");
        notes.send_with_write(100);
        assert!(notes.handle_taken(164) && !notes.handle_taken(163) && !notes.handle_taken(165));
    }

    /// What the program took is told when it is a quarter; what is dropped counts beside that.
    #[test]
    fn the_longest_one_has_room_when_all_are_gone() {
        let buffer = u64::from(LEAST_NOTIFICATION_BYTES);
        let (mut sender, mut receiver) = (Notes::new(buffer, buffer), Notes::new(buffer, buffer));
        let taken = (buffer / 4) as usize - 65;
        sender.send_with_write(taken);
        assert!(receiver.handle_note(taken));
        for dropped in [taken, 0, 1, 100, taken / 2, taken / 2 - 64, 0] {
            sender.send_with_write(dropped);
            assert!(receiver.handle_note(dropped));
            if let Some(told) = receiver.drop_note(dropped) {
                assert!(sender.handle_taken(told));
            }
            let has_room = sender.may_send(MAX_NOTIFICATION_BYTES as usize);
            assert!(has_room, "after one of {dropped} bytes");
        }
    }

    #[test]
    fn a_queue_has_an_end() {
        let mut notes = Notes::new(1000, 1000);
        notes.push(vec![0; 872].into());
        assert!(notes.has_room(0) && !notes.has_room(1));
        assert_eq!(notes.queued(), 936);
        assert!(notes.next().is_some() && notes.next().is_none());
        assert!(notes.has_room(936) && !notes.may_send(1) && notes.may_send(0));
    }

    /// However long those are that wait, and however short those of writes.
    #[test]
    fn writes_and_those_that_wait_take_turns() {
        let mut notes = Notes::new(1000, 1000);
        for _ in 0..5 {
            assert!(notes.may_send_with_write(100));
            notes.send_with_write(100);
        }
        notes.push(vec![0; 500].into());
        notes.push(vec![].into());
        assert!(!notes.has_next() && notes.may_send_with_write(50));
        notes.send_with_write(50);
        assert!(notes.may_send(1) && !notes.may_send_with_write(1), "it is another's turn");
        assert!(notes.handle_taken(500) && notes.has_next() && !notes.may_send_with_write(1));
        assert!(notes.next().is_some_and(|note| note.len() == 500));
        assert!(notes.handle_taken(notes.sent) && notes.may_send_with_write(1));
        notes.send_with_write(1);
        assert!(!notes.may_send_with_write(1) && notes.next().is_some());
        assert!(notes.may_send_with_write(1));
        notes.send_with_write(1);
        assert!(notes.may_send_with_write(1), "nothing waits");
    }

    proptest! {
        /// A link, and a program that takes some now and then: the buffer is never exceeded, and
        /// when all was taken the next one goes.
        #[test]
        fn nothing_is_lost_and_nobody_waits_for_ever(
            buffer in (128u64 << 10)..(1 << 20),
            steps in proptest::collection::vec((0usize..=MAX_NOTIFICATION_BYTES as usize, any::<bool>()), 1..200),
        ) {
            let (mut sender, mut receiver) = (Notes::new(buffer, buffer), Notes::new(buffer, buffer));
            let mut kept = VecDeque::new();
            let (mut taken, mut told, mut sent) = (0, 0, 0);
            for (bytes, takes_all) in &steps {
                sender.push(vec![0; *bytes].into());
                while let Some(note) = sender.next() {
                    sent += 1;
                    prop_assert!(receiver.handle_note(note.len()));
                    kept.push_back(note.len());
                }
                let takes = if *takes_all { kept.len() } else { kept.len().min(1) };
                taken += kept.drain(..takes).map(cost).sum::<u64>();
                if taken - told >= buffer / 4 {
                    told = receiver.take(taken);
                    prop_assert!(sender.handle_taken(told));
                }
                if *takes_all {
                    while let Some(note) = sender.next() {
                        sent += 1;
                        prop_assert!(receiver.handle_note(note.len()));
                        taken += cost(note.len());
                        if taken - told >= buffer / 4 {
                            told = receiver.take(taken);
                            prop_assert!(sender.handle_taken(told));
                        }
                    }
                    prop_assert_eq!(sender.queued(), 0, "all was taken, and something waits");
                }
            }
            prop_assert!(sent <= steps.len());
        }
    }
}
