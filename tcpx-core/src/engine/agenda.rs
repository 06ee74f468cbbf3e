//! Set of peers that the next rounds drive. Pure.
//!
//! An idle peer costs a round nothing. A round drives a peer after an event on one of its
//! descriptors or new work from the program, when its time has come, or when the peer asks for it.
//!
//! The cost of a round grows with the work, not with the number of peers. Descriptors are watched
//! edge-triggered, so the reader of a descriptor must remember that it has not read all. The
//! software plugin names the descriptors of its comms by an addition to the table
//! (`tcpx_sys::CommPollV1`). Another plugin does not report the end of a request. Its lanes are
//! polled, at once at first, and then after longer and longer pauses.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use slotmap::SecondaryMap;

use crate::reactor::Attention;
use crate::types::PeerKey;

/// State of a peer in the agenda.
#[derive(Clone, Copy, Debug, Default)]
struct PeerMarks {
    /// Whether the peer is in `due`.
    is_due: bool,
    /// Whether the peer is in `polled`.
    is_polled: bool,
    /// Whether the peer is in `awaiting`.
    is_awaiting: bool,
    /// Whether the peer is in `holding`.
    is_holding: bool,
    /// Whether the peer is in `watched`.
    is_watched: bool,
    /// Time of the peer in `timers`.
    timer: Option<Instant>,
    /// Latest wishes of the peer.
    wants: Attention,
}

/// Peers that have something to do.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    marks: SecondaryMap<PeerKey, PeerMarks>,
    /// Peers that the next round drives, in turn.
    due: VecDeque<PeerKey>,
    /// Peers that must be polled: no descriptor reports their events.
    polled: Vec<PeerKey>,
    /// Peers that wait for a result of a worker.
    awaiting: BTreeSet<PeerKey>,
    /// Peers with chunks that are being unpacked or gathered.
    holding: Vec<PeerKey>,
    /// Peers that the next look of the watch checks.
    watched: Vec<PeerKey>,
    timers: BTreeSet<(Instant, PeerKey)>,
    sending: usize,
    receiving: usize,
}

impl Agenda {
    /// Has the next round drive a peer.
    pub(super) fn mark(&mut self, key: PeerKey) {
        let Some(entry) = self.marks.entry(key) else { return };
        let marks = entry.or_default();
        if !std::mem::replace(&mut marks.is_due, true) {
            self.due.push_back(key);
        }
    }

    /// Takes note of a worker's result: drives the peer concerned, or all peers that may wait for
    /// the result, if they do wait for a worker. Returns whether any peer does.
    pub(super) fn mark_awaiting(&mut self, concerned: Option<PeerKey>) -> bool {
        let awaited = match concerned {
            Some(key) => self.awaiting.take(&key).into_iter().collect(),
            None => std::mem::take(&mut self.awaiting),
        };
        for key in awaited.iter().copied() {
            if let Some(marks) = self.marks.get_mut(key) {
                marks.is_awaiting = false;
            }
            self.mark(key);
        }
        !awaited.is_empty()
    }

    /// Begins a round: drives the peers whose time has come, and those that must be polled.
    pub(super) fn begin(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            let Some(marks) = self.marks.get_mut(key) else { continue };
            // The peer's latest timeout may be later: it has changed meanwhile.
            marks.timer = marks.wants.timeout.filter(|timeout| *timeout > now);
            match marks.timer {
                Some(timeout) => _ = self.timers.insert((timeout, key)),
                None => self.mark(key),
            }
        }
        let mut polled = std::mem::take(&mut self.polled);
        polled.retain(|key| {
            let Some(marks) = self.marks.get_mut(*key) else { return false };
            marks.is_polled = marks.wants.polls;
            if marks.is_polled {
                self.mark(*key);
            }
            self.marks[*key].is_polled
        });
        self.polled = polled;
    }

    /// Returns the number of due peers.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// Returns the next peer to drive.
    pub(super) fn take(&mut self) -> Option<PeerKey> {
        let key = self.due.pop_front()?;
        if let Some(marks) = self.marks.get_mut(key) {
            marks.is_due = false;
        }
        Some(key)
    }

    /// Records that a peer was driven, and wants this.
    pub(super) fn reschedule(&mut self, key: PeerKey, wants: Attention) {
        let Some(entry) = self.marks.entry(key) else { return };
        let marks = entry.or_default();
        let before = std::mem::replace(&mut marks.wants, wants);
        self.sending = self.sending + usize::from(wants.sending) - usize::from(before.sending);
        self.receiving =
            self.receiving + usize::from(wants.receiving) - usize::from(before.receiving);
        if wants.polls && !std::mem::replace(&mut marks.is_polled, true) {
            self.polled.push(key);
        }
        let was_awaiting = std::mem::replace(&mut marks.is_awaiting, wants.awaits_worker);
        match (was_awaiting, wants.awaits_worker) {
            (false, true) => _ = self.awaiting.insert(key),
            (true, false) => _ = self.awaiting.remove(&key),
            _ => {}
        }
        if wants.holds_slots && !std::mem::replace(&mut marks.is_holding, true) {
            self.holding.push(key);
        }
        if !std::mem::replace(&mut marks.is_watched, true) {
            self.watched.push(key);
        }
        // A timer that is too early is detected when it ends.
        if let Some(timeout) = wants.timeout
            && marks.timer.is_none_or(|timer| timeout < timer)
        {
            if let Some(timer) = marks.timer.replace(timeout) {
                self.timers.remove(&(timer, key));
            }
            self.timers.insert((timeout, key));
        }
        if wants.again {
            self.mark(key);
        }
    }

    /// Takes the peers with chunks that are being unpacked or gathered. Peers that still have some
    /// come back when they are [settled](Self::settle).
    pub(super) fn take_holding(&mut self, into: &mut Vec<PeerKey>) {
        into.clear();
        std::mem::swap(into, &mut self.holding);
        for key in &*into {
            if let Some(marks) = self.marks.get_mut(*key) {
                marks.is_holding = false;
            }
        }
    }

    /// Takes the peers that were driven since they were last idle.
    pub(super) fn take_watched(&mut self) -> Vec<PeerKey> {
        std::mem::take(&mut self.watched)
    }

    /// Gives the taken peers back. Peers that are idle now come again when they are driven.
    pub(super) fn watch_on(
        &mut self,
        mut watched: Vec<PeerKey>,
        mut is_idle: impl FnMut(PeerKey) -> bool,
    ) {
        watched.retain(|key| match self.marks.get_mut(*key) {
            Some(marks) => {
                marks.is_watched = !is_idle(*key);
                marks.is_watched
            }
            None => false,
        });
        watched.append(&mut self.watched);
        self.watched = watched;
    }

    /// Returns whether any peer must be polled.
    pub(super) fn is_polling(&self) -> bool {
        self.polled.iter().any(|key| self.marks.get(*key).is_some_and(|marks| marks.wants.polls))
    }

    /// Returns the earliest time of a peer.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns whether chunks are being sent with any peer, and whether any posted receive waits.
    pub(super) fn activity(&self) -> (bool, bool) {
        (self.sending > 0, self.receiving > 0)
    }

    /// Forgets a peer.
    pub(super) fn forget(&mut self, key: PeerKey) {
        self.reschedule(key, Attention::default());
        if let Some(marks) = self.marks.remove(key)
            && let Some(timer) = marks.timer
        {
            self.timers.remove(&(timer, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use slotmap::SlotMap;

    use super::*;

    fn keys(count: usize) -> Vec<PeerKey> {
        let mut peers = SlotMap::<PeerKey, ()>::with_key();
        (0..count).map(|_| peers.insert(())).collect()
    }

    fn round(agenda: &mut Agenda, now: Instant) -> Vec<PeerKey> {
        agenda.begin(now);
        let due = agenda.due();
        (0..due).filter_map(|_| agenda.take()).collect()
    }

    #[test]
    fn only_those_are_driven_to_which_something_happens() {
        let (mut agenda, keys, now) = (Agenda::default(), keys(3), Instant::now());
        assert!(round(&mut agenda, now).is_empty());
        agenda.mark(keys[1]);
        agenda.mark(keys[0]);
        agenda.mark(keys[1]);
        assert_eq!(round(&mut agenda, now), [keys[1], keys[0]], "once each, in turn");
        agenda.reschedule(keys[0], Attention { again: true, ..Attention::default() });
        assert_eq!(round(&mut agenda, now), [keys[0]]);
        assert!(round(&mut agenda, now).is_empty());
    }

    #[test]
    fn those_without_descriptors_are_asked_until_they_have_nothing_under_way() {
        let (mut agenda, keys, now) = (Agenda::default(), keys(2), Instant::now());
        let polls = Attention { polls: true, ..Attention::default() };
        keys.iter().for_each(|key| agenda.reschedule(*key, polls));
        for _ in 0..3 {
            assert_eq!(round(&mut agenda, now), keys);
            assert!(agenda.is_polling());
        }
        agenda.reschedule(keys[0], Attention::default());
        assert_eq!(round(&mut agenda, now), [keys[1]]);
        agenda.forget(keys[1]);
        assert!(round(&mut agenda, now).is_empty() && !agenda.is_polling());
    }

    #[test]
    fn a_timer_marks_its_peer_once_and_the_earliest_counts() {
        let (mut agenda, keys, now) = (Agenda::default(), keys(2), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let until = |seconds| Attention { timeout: Some(at(seconds)), ..Attention::default() };
        agenda.reschedule(keys[0], until(5));
        agenda.reschedule(keys[0], until(3));
        agenda.reschedule(keys[0], until(4));
        agenda.reschedule(keys[1], until(9));
        assert_eq!(agenda.next_timer(), Some(at(3)));
        assert!(round(&mut agenda, at(3)).is_empty(), "it wants a later time by now");
        assert_eq!(agenda.next_timer(), Some(at(4)));
        assert_eq!(round(&mut agenda, at(4)), [keys[0]]);
        assert!(round(&mut agenda, at(8)).is_empty());
        agenda.forget(keys[1]);
        assert_eq!(agenda.next_timer(), None);
    }

    #[test]
    fn a_workers_word_reaches_those_that_wait_for_it() {
        let (mut agenda, keys, now) = (Agenda::default(), keys(3), Instant::now());
        let waits = Attention { awaits_worker: true, ..Attention::default() };
        agenda.reschedule(keys[0], waits);
        agenda.reschedule(keys[2], waits);
        agenda.forget(keys[2]);
        assert!(round(&mut agenda, now).is_empty());
        assert!(agenda.mark_awaiting(None));
        assert_eq!(round(&mut agenda, now), [keys[0]]);
        assert!(
            !agenda.mark_awaiting(None) && round(&mut agenda, now).is_empty(),
            "it was not asked again"
        );
        agenda.reschedule(keys[1], waits);
        agenda.reschedule(keys[1], Attention::default());
        assert!(!agenda.mark_awaiting(None), "it has its answer");
        agenda.forget(keys[0]);
        agenda.forget(keys[1]);
        assert!(agenda.awaiting.is_empty());
    }

    #[test]
    fn of_a_crowd_that_waits_for_workers_only_who_is_concerned_is_driven() {
        let (mut agenda, keys, now) = (Agenda::default(), keys(1_000), Instant::now());
        let waits = Attention { awaits_worker: true, ..Attention::default() };
        keys.iter().for_each(|key| agenda.reschedule(*key, waits));
        let mut driven = 0;
        for key in &keys {
            assert!(agenda.mark_awaiting(Some(*key)));
            let due = round(&mut agenda, now);
            driven += due.len();
            due.iter().for_each(|key| agenda.reschedule(*key, waits));
        }
        assert_eq!(driven, keys.len(), "once each");
        assert!(agenda.mark_awaiting(None));
        assert_eq!(round(&mut agenda, now).len(), keys.len(), "it may concern any");
    }

    #[test]
    fn who_is_driven_is_watched_until_it_is_idle() {
        let (mut agenda, keys) = (Agenda::default(), keys(3));
        let drive = |agenda: &mut Agenda, peer: usize| {
            agenda.reschedule(keys[peer], Attention::default());
        };
        (0..2).for_each(|peer| drive(&mut agenda, peer));
        drive(&mut agenda, 0);
        let watched = agenda.take_watched();
        assert_eq!(watched, keys[..2], "once each, and not who was never driven");
        drive(&mut agenda, 0);
        drive(&mut agenda, 2);
        agenda.watch_on(watched, |key| key == keys[0]);
        let watched = agenda.take_watched();
        assert_eq!(watched, keys[1..]);
        agenda.forget(keys[1]);
        agenda.watch_on(watched, |_| false);
        drive(&mut agenda, 0);
        assert_eq!(agenda.take_watched(), [keys[2], keys[0]]);
    }

    #[test]
    fn what_is_under_way_is_known_without_looking_through_the_peers() {
        let (mut agenda, keys) = (Agenda::default(), keys(2));
        let busy = Attention { sending: true, receiving: true, ..Attention::default() };
        keys.iter().for_each(|key| agenda.reschedule(*key, busy));
        agenda.reschedule(keys[0], Attention { receiving: true, ..Attention::default() });
        assert_eq!(agenda.activity(), (true, true));
        agenda.forget(keys[1]);
        assert_eq!(agenda.activity(), (false, true));
        agenda.forget(keys[0]);
        assert_eq!(agenda.activity(), (false, false));
    }
}
