//! Notifications, both ways: which may be sent, and which are due. Pure.
//!
//! A receiver keeps what its program has not taken. So a sender may only send what there is
//! room for. None is dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::flow_control::{IncomingCredit, OutgoingCredit};
use crate::types::note_cost as cost;

/// The books of one end. Costs are sums since the link began.
#[derive(Debug)]
pub(in crate::peer) struct Notes {
    /// Room here for those that wait.
    queue_room: u64,
    /// Cost that the peer allows, and cost that was sent.
    pub(in crate::peer) outgoing: OutgoingCredit,
    /// Cost that may come, and cost that has come.
    pub(in crate::peer) incoming: IncomingCredit,
    /// Cost of those that the program has taken, and of those that were dropped.
    taken: u64,
    dropped: u64,
    /// Notifications that wait, oldest first.
    queue: VecDeque<Arc<[u8]>>,
    queued: u64,
    /// Whether the room was used last for the note of a write, while others waited.
    owes_turn: bool,
    /// Notifications that have come and belong to writes under way.
    pub(super) numbers_used: u64,
}

impl Notes {
    pub(super) fn new(incoming: IncomingCredit, queue_room: u64) -> Self {
        Self {
            queue_room,
            outgoing: OutgoingCredit::new(incoming.granted()),
            incoming,
            taken: 0,
            dropped: 0,
            queue: VecDeque::new(),
            queued: 0,
            owes_turn: false,
            numbers_used: 0,
        }
    }

    /// Returns whether a notification of this many bytes may be sent now.
    pub(super) fn may_send(&self, bytes: usize) -> bool {
        self.outgoing.has(cost(bytes))
    }

    /// Returns whether the notification of a write, of this many bytes, may be sent now. Writes and
    /// notifications that wait by themselves take turns, however long they are: neither starves the
    /// other where the peer's program takes them slowly.
    pub(super) fn may_send_with_write(&self, bytes: usize) -> bool {
        self.may_send(bytes) && !self.owes_turn
    }

    /// Counts the notification of a write as sent.
    pub(super) fn send_with_write(&mut self, bytes: usize) {
        self.outgoing.sent += cost(bytes);
        self.owes_turn = !self.queue.is_empty();
    }

    /// Puts one behind those that wait.
    pub(super) fn push(&mut self, note: Arc<[u8]>) {
        self.queued += cost(note.len());
        self.queue.push_back(note);
    }

    /// Returns whether one more notification of this many bytes may wait here.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queued + cost(bytes) <= self.queue_room
    }

    /// Returns the cost of those that wait.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns how many wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether any wait.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns whether the oldest of those that wait may be sent.
    pub(super) fn has_next(&self) -> bool {
        self.queue.front().is_some_and(|note| self.may_send(note.len()))
    }

    /// Returns the oldest of those that wait, if it may be sent. It counts as sent.
    pub(super) fn next(&mut self) -> Option<Arc<[u8]>> {
        let bytes = self.queue.front()?.len();
        if !self.may_send(bytes) {
            return None;
        }
        self.queued -= cost(bytes);
        self.outgoing.sent += cost(bytes);
        self.owes_turn = false;
        self.queue.pop_front()
    }

    /// Counts a notification of this many bytes that has come. Returns whether the peer may send
    /// it.
    pub(super) fn handle_note(&mut self, bytes: usize) -> bool {
        self.incoming.receive(cost(bytes))
    }

    /// Notes that the program has taken notifications that cost `taken` in all.
    pub(super) fn take(&mut self, taken: u64) {
        self.taken = taken;
    }

    /// Drops a notification of this many bytes that has come.
    pub(super) fn drop_note(&mut self, bytes: usize) {
        self.dropped += cost(bytes);
    }

    /// Looks at what is kept. Returns whether it may be time to give more room.
    #[inline]
    pub(in crate::peer) fn look(&mut self) -> bool {
        self.incoming.needs_grant(self.incoming.received - self.taken - self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frames::eager_terms::CreditKind;
    use crate::peer::flow_control::FlowTerms;
    use crate::types::peer_budget::PeerBudget;
    use crate::types::{LEAST_NOTIFICATION_BYTES, MAX_NOTIFICATION_BYTES, TELL_AFTER};

    /// Makes an end that keeps at most `most`, of a session that keeps `budget` bytes for its
    /// peers.
    fn keeping(budget: u64, most: u64) -> Notes {
        Notes::new(FlowTerms::new(&PeerBudget::new(budget)).notes(most), most)
    }

    /// Makes an end whose peer keeps up to 1000 bytes.
    fn to_peer() -> Notes {
        let notes = keeping(0, 1000);
        assert_eq!(notes.outgoing.granted, 1000, "all of it is its own");
        notes
    }

    /// Gives the sender what the receiver says next.
    fn hear(sender: &mut Notes, receiver: &mut Notes) {
        if receiver.look()
            && let Some(count) = receiver.incoming.grant()
        {
            sender.outgoing.handle_grant(CreditKind::Notes, count).unwrap();
        }
    }

    #[test]
    fn notifications_beyond_the_credit_are_a_violation() {
        let mut notes = keeping(1 << 20, 1000);
        assert_eq!((notes.incoming.first_grant(), notes.incoming.granted()), (None, 1000));
        assert!(notes.handle_note(436) && notes.handle_note(436) && !notes.handle_note(0));
    }

    /// What the program took is said when it is some; what is dropped counts beside that.
    #[test]
    fn the_longest_one_has_room_when_all_are_gone() {
        let most = u64::from(LEAST_NOTIFICATION_BYTES);
        for budget in [0, 1000, 1 << 30] {
            let (mut sender, mut receiver) = (keeping(0, most), keeping(budget, most));
            receiver.incoming.first_grant();
            sender.outgoing.granted = receiver.incoming.granted();
            let taken = (TELL_AFTER - 65) as usize;
            sender.send_with_write(taken);
            assert!(receiver.handle_note(taken));
            for dropped in [taken, 0, 1, 100, taken / 2, taken / 2 - 64, 60_000, 0] {
                sender.send_with_write(dropped);
                assert!(receiver.handle_note(dropped));
                receiver.drop_note(dropped);
                hear(&mut sender, &mut receiver);
                let has_room = sender.may_send(MAX_NOTIFICATION_BYTES as usize);
                assert!(has_room, "after one of {dropped} bytes, {budget}");
            }
        }
    }

    #[test]
    fn a_queue_has_an_end() {
        let mut notes = to_peer();
        notes.push(vec![0; 872].into());
        assert!(notes.has_room(0) && !notes.has_room(1));
        assert_eq!(notes.queued(), 936);
        assert!(notes.next().is_some() && notes.next().is_none());
        assert!(notes.has_room(936) && !notes.may_send(1) && notes.may_send(0));
    }

    /// However long those are that wait, and however short those of writes.
    #[test]
    fn writes_and_those_that_wait_take_turns() {
        let mut notes = to_peer();
        for _ in 0..5 {
            assert!(notes.may_send_with_write(100));
            notes.send_with_write(100);
        }
        notes.push(vec![0; 500].into());
        notes.push(vec![].into());
        assert!(!notes.has_next() && notes.may_send_with_write(50));
        notes.send_with_write(50);
        assert!(notes.may_send(1) && !notes.may_send_with_write(1), "it is another's turn");
        notes.outgoing.granted += 500;
        assert!(notes.has_next() && !notes.may_send_with_write(1));
        assert!(notes.next().is_some_and(|note| note.len() == 500));
        notes.outgoing.granted += 1000;
        assert!(notes.may_send_with_write(1));
        notes.send_with_write(1);
        assert!(!notes.may_send_with_write(1) && notes.next().is_some());
        assert!(notes.may_send_with_write(1));
        notes.send_with_write(1);
        assert!(notes.may_send_with_write(1), "nothing waits");
    }

    proptest! {
        /// A link, and a program that takes some now and then: no more is kept than there is room
        /// for, and when all was taken the next one goes, whatever others hold.
        #[test]
        fn nothing_is_lost_and_no_notification_waits_for_ever(
            most in (128u64 << 10)..(1 << 20),
            budget in prop_oneof![Just(0u64), 0u64..(4 << 20)],
            steps in proptest::collection::vec(
                (0usize..=MAX_NOTIFICATION_BYTES as usize, any::<bool>()), 1..200,
            ),
        ) {
            let (mut sender, mut receiver) = (keeping(0, 1 << 40), keeping(budget, most));
            receiver.incoming.first_grant();
            sender.outgoing.granted = receiver.incoming.granted();
            let mut kept = VecDeque::new();
            let (mut taken, mut told) = (0, 0);
            for (bytes, takes_all) in &steps {
                sender.push(vec![0; *bytes].into());
                loop {
                    while let Some(note) = sender.next() {
                        prop_assert!(receiver.handle_note(note.len()));
                        kept.push_back(note.len());
                    }
                    let used: u64 = kept.iter().copied().map(cost).sum();
                    prop_assert!(used <= most.min(budget + (72 << 10)), "{} bytes are kept", used);
                    let takes = if *takes_all { kept.len() } else { kept.len().min(1) };
                    taken += kept.drain(..takes).map(cost).sum::<u64>();
                    if taken - told >= TELL_AFTER {
                        told = taken;
                        receiver.take(taken);
                    }
                    hear(&mut sender, &mut receiver);
                    if !takes_all || !sender.has_next() {
                        break;
                    }
                }
                prop_assert!(!takes_all || sender.queued() == 0, "all was taken, and one waits");
            }
        }
    }
}
