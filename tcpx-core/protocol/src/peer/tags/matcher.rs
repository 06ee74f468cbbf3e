//! Tag matching between the sends posted here and the receives that the peer announced. Pure.
//!
//! Equal tags match in the order in which they were posted. Each end runs one [`Matcher`] for the
//! direction in which it sends; the receiving end only announces.

use std::collections::TryReserveError;

use foldhash::HashMap;

use super::tag_queues::{QueuePlace, TagQueues};
use crate::frames::fields::Delivery;
use crate::types::OpKey;

/// A receive that the peer announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PostedReceive {
    /// The peer's name for it.
    pub recv: u64,
    pub bytes: u64,
    pub delivery: Delivery,
    /// Its place among everything that the peer announced.
    pub number: u64,
}

/// Result of posting a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PostedSend {
    /// A receive was announced for it.
    Matched(PostedReceive),
    /// The send waits, at this place.
    Waits(QueuePlace),
}

/// Sends here, announced receives there.
#[derive(Debug, Default)]
pub(in super::super) struct Matcher {
    sends: TagQueues<OpKey>,
    receives: TagQueues<PostedReceive>,
    /// Place of each announced receive, so that it can be withdrawn by name.
    places: HashMap<u64, QueuePlace>,
}

/// The peer used one name for two receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct DuplicateName;

impl Matcher {
    /// Returns the number of sends that no receive was announced for.
    pub(in super::super) fn waiting_sends(&self) -> usize {
        self.sends.len()
    }

    /// Returns the one of them that has waited longest.
    pub(in super::super) fn oldest_send(&self) -> Option<OpKey> {
        self.sends.oldest().copied()
    }

    /// Returns the number of announced receives that wait for a send.
    pub(in super::super) fn posted_receives(&self) -> usize {
        self.receives.len()
    }

    /// Makes room for this many sends that find no receive.
    pub(in super::super) fn make_room(&mut self, sends: usize) -> Result<(), TryReserveError> {
        self.sends.make_room(sends)
    }

    /// Gives back what nothing needs of that.
    pub(in super::super) fn give_room_back(&mut self) {
        self.sends.give_room_back();
    }

    /// Returns whether nothing waits for a send or a receive of a tag.
    pub(in super::super) fn has_none(&self, tag: i64) -> bool {
        !self.receives.has(tag) && !self.sends.has(tag)
    }

    /// Posts a send of this end.
    pub(in super::super) fn post_send(&mut self, tag: i64, send: OpKey) -> PostedSend {
        match self.receives.pop(tag) {
            Some(announced) => {
                self.places.remove(&announced.recv);
                PostedSend::Matched(announced)
            }
            None => PostedSend::Waits(self.sends.push(tag, send)),
        }
    }

    /// Takes a receive that the peer announced. Returns the send that was posted for it, if there
    /// is one.
    pub(in super::super) fn announce(
        &mut self,
        tag: i64,
        announced: PostedReceive,
    ) -> Result<Option<OpKey>, DuplicateName> {
        if self.places.contains_key(&announced.recv) {
            return Err(DuplicateName);
        }
        let send = self.sends.pop(tag);
        if send.is_none() {
            let place = self.receives.push(tag, announced);
            self.places.insert(announced.recv, place);
        }
        Ok(send)
    }

    /// Withdraws the send that waits at `place`.
    pub(in super::super) fn withdraw_send(&mut self, place: QueuePlace) {
        self.sends.remove(place);
    }

    /// Withdraws a receive that the peer announced. Returns false when it was matched already.
    pub(in super::super) fn withdraw_receive(&mut self, recv: u64) -> bool {
        self.places.remove(&recv).and_then(|place| self.receives.remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slotmap::SlotMap;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Send(i64),
        Announce(i64),
        WithdrawSend(usize),
        WithdrawReceive(usize),
    }

    fn announced(recv: u64) -> PostedReceive {
        PostedReceive { recv, bytes: 1, delivery: Delivery::Unpacked, number: recv }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let tag = proptest::sample::select(vec![0, 1, -1, 1 << 32]);
        proptest::collection::vec(
            prop_oneof![
                4 => tag.clone().prop_map(Step::Send),
                4 => tag.prop_map(Step::Announce),
                1 => any::<usize>().prop_map(Step::WithdrawSend),
                1 => any::<usize>().prop_map(Step::WithdrawReceive),
            ],
            0..200,
        )
    }

    proptest! {
        /// Against the plainest model there is: two lists that are searched from the front.
        #[test]
        fn agrees_with_two_lists(steps in steps()) {
            let mut keys = SlotMap::<OpKey, ()>::with_key();
            let mut matcher = Matcher::default();
            let mut sends: Vec<(i64, OpKey, QueuePlace)> = Vec::new();
            let mut receives: Vec<(i64, u64)> = Vec::new();
            for (name, step) in (100u64..).zip(steps) {
                match step {
                    Step::Send(tag) => {
                        let send = keys.insert(());
                        let oldest = receives.iter().position(|receive| receive.0 == tag);
                        let model = oldest.map(|at| receives.remove(at).1);
                        match matcher.post_send(tag, send) {
                            PostedSend::Matched(announced) => {
                                prop_assert_eq!(Some(announced.recv), model);
                            }
                            PostedSend::Waits(place) => {
                                prop_assert_eq!(model, None);
                                sends.push((tag, send, place));
                            }
                        }
                    }
                    Step::Announce(tag) => {
                        let oldest = sends.iter().position(|send| send.0 == tag);
                        let model = oldest.map(|at| sends.remove(at).1);
                        if model.is_none() {
                            receives.push((tag, name));
                        }
                        prop_assert_eq!(matcher.announce(tag, announced(name)).unwrap(), model);
                    }
                    Step::WithdrawSend(pick) if !sends.is_empty() => {
                        let (.., place) = sends.remove(pick % sends.len());
                        matcher.withdraw_send(place);
                    }
                    Step::WithdrawReceive(pick) if !receives.is_empty() => {
                        let (_, recv) = receives.remove(pick % receives.len());
                        prop_assert!(matcher.withdraw_receive(recv));
                        prop_assert!(!matcher.withdraw_receive(recv));
                    }
                    Step::WithdrawSend(_) | Step::WithdrawReceive(_) => {}
                }
                for tag in 0..4 {
                    let waits = sends.iter().any(|send| send.0 == tag)
                        || receives.iter().any(|receive| receive.0 == tag);
                    prop_assert_eq!(matcher.has_none(tag), !waits);
                }
                prop_assert_eq!(matcher.posted_receives(), receives.len());
                prop_assert_eq!(matcher.waiting_sends(), sends.len());
                prop_assert_eq!(matcher.oldest_send(), sends.first().map(|send| send.1));
            }
        }
    }

    #[test]
    fn a_backlog_reuses_its_storage() {
        let mut matcher = Matcher::default();
        for round in 0..1000 {
            for send in 0..10 {
                let posted = matcher.post_send(round * 10 + send, OpKey::default());
                assert!(matches!(posted, PostedSend::Waits(_)));
            }
            for send in 0..10 {
                let announced = announced(send as u64);
                assert!(matcher.announce(round * 10 + send, announced).unwrap().is_some());
            }
        }
        assert!(matcher.sends.capacity() <= 16);
    }

    /// Receives of one tag, withdrawn oldest first and newest first: each without a search.
    fn withdraw_many_of_one_tag(receives: u64) {
        let mut matcher = Matcher::default();
        let names = 0..receives;
        for name in names.clone() {
            assert_eq!(matcher.announce(7, announced(name)), Ok(None));
        }
        let (oldest, newest) = {
            let half = receives as usize / 2;
            (names.clone().take(half), names.rev().take(half))
        };
        for name in newest.chain(oldest) {
            assert!(matcher.withdraw_receive(name));
        }
        assert!(matcher.receives.tags() == 0 && matcher.posted_receives() == 0);
    }

    #[test]
    fn withdrawing_many_of_one_tag_takes_as_many_steps() {
        withdraw_many_of_one_tag(100_000);
    }

    #[test]
    #[ignore = "deep: a million receives"]
    fn withdrawing_a_million_of_one_tag_takes_as_many_steps() {
        withdraw_many_of_one_tag(1_000_000);
    }

    #[test]
    fn one_name_for_two_receives_is_refused() {
        let mut matcher = Matcher::default();
        assert_eq!(matcher.announce(1, announced(5)), Ok(None));
        assert_eq!(matcher.announce(2, announced(5)), Err(DuplicateName));
    }
}
