//! Rounds of transfers with a time limit. Pure.
//!
//! `Error::Deadline` is the result of a call, and never of an operation. An operation with a limit
//! of its program ends with `Error::Expired`. An overdue round is given up as a cancel does
//! (`watching`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use slotmap::SecondaryMap;
use tcpx_protocol::types::TransferKey;

/// Round that has exceeded its limit, unless it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    pub(super) transfer: TransferKey,
    /// Number of the round.
    pub(super) round: u64,
    pub(super) limit: Duration,
}

/// Last round of a transfer that has a limit.
#[derive(Debug)]
struct LastRound {
    number: u64,
    limit: Duration,
    overdue_at: Instant,
    /// Time of its entry in the queue. Later rounds leave the entry there while they have more
    /// time, so that frequent posts cost nothing.
    looked_at: Option<Instant>,
}

/// Limits of a session's transfers.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Limit of every round of a transfer.
    limits: SecondaryMap<TransferKey, Duration>,
    rounds: SecondaryMap<TransferKey, LastRound>,
    queue: BTreeSet<(Instant, TransferKey)>,
}

impl Deadlines {
    /// Sets the limit of rounds of a transfer that begin from now on.
    pub(super) fn set_limit(&mut self, transfer: TransferKey, limit: Option<Duration>) {
        match limit {
            Some(limit) => drop(self.limits.insert(transfer, limit)),
            None => drop(self.limits.remove(transfer)),
        }
    }

    /// Returns the limit of rounds of a transfer, if there is one.
    pub(super) fn limit_of(&self, transfer: TransferKey) -> Option<Duration> {
        self.limits.get(transfer).copied()
    }

    /// Records that a transfer is in this round, which began now unless it was there before.
    pub(super) fn in_round(
        &mut self,
        transfer: TransferKey,
        number: u64,
        limit: Duration,
        now: Instant,
    ) {
        // A deadline beyond the range of time is no limit.
        let Some(overdue_at) = now.checked_add(limit) else { return };
        let looked_at = match self.rounds.get(transfer) {
            Some(round) if round.number == number => return,
            Some(round) => round.looked_at,
            None => None,
        };
        let mut round = LastRound { number, limit, overdue_at, looked_at };
        if looked_at.is_none_or(|at| overdue_at < at) {
            if let Some(at) = looked_at {
                self.queue.remove(&(at, transfer));
            }
            self.queue.insert((overdue_at, transfer));
            round.looked_at = Some(overdue_at);
        }
        self.rounds.insert(transfer, round);
    }

    /// Removes a transfer.
    pub(super) fn remove(&mut self, transfer: TransferKey) {
        self.limits.remove(transfer);
        let looked_at = self.rounds.remove(transfer).and_then(|round| round.looked_at);
        if let Some(at) = looked_at {
            self.queue.remove(&(at, transfer));
        }
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes out a round that is overdue by now.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<Overdue> {
        while let Some((at, transfer)) = self.queue.first().copied().filter(|(at, _)| *at <= now) {
            self.queue.remove(&(at, transfer));
            let Some(round) = self.rounds.get_mut(transfer) else { continue };
            if round.overdue_at > now {
                round.looked_at = Some(round.overdue_at);
                self.queue.insert((round.overdue_at, transfer));
                continue;
            }
            let (round, limit) = (round.number, round.limit);
            self.rounds.remove(transfer);
            return Some(Overdue { transfer, round, limit });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn keys<const N: usize>() -> [TransferKey; N] {
        let mut all = SlotMap::<TransferKey, ()>::with_key();
        [(); N].map(|()| all.insert(()))
    }

    #[test]
    fn a_round_is_overdue_once_and_only_after_its_time() {
        let ([a, b], now) = (keys(), Instant::now());
        let mut deadlines = Deadlines::default();
        deadlines.in_round(a, 1, 2 * SECOND, now);
        deadlines.in_round(b, 7, SECOND, now);
        // Further posts to a round do not prolong it.
        deadlines.in_round(b, 7, SECOND, now + SECOND / 2);
        assert_eq!(deadlines.next(), Some(now + SECOND));
        assert_eq!(deadlines.take_overdue(now + SECOND / 2), None);
        let overdue = |transfer, round, limit| Some(Overdue { transfer, round, limit });
        assert_eq!(deadlines.take_overdue(now + SECOND), overdue(b, 7, SECOND));
        assert_eq!(deadlines.take_overdue(now + SECOND), None);
        assert_eq!(deadlines.take_overdue(now + 3 * SECOND), overdue(a, 1, 2 * SECOND));
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn later_rounds_have_times_of_their_own() {
        let ([a], now) = (keys(), Instant::now());
        let mut deadlines = Deadlines::default();
        for round in 1..100 {
            deadlines.in_round(a, round, 10 * SECOND, now + round as u32 * SECOND);
            assert_eq!(deadlines.queue.len(), 1);
        }
        // The queue has the time of the first round, and finds that it is too early.
        assert_eq!(deadlines.next(), Some(now + 11 * SECOND));
        assert_eq!(deadlines.take_overdue(now + 108 * SECOND), None);
        assert_eq!(deadlines.next(), Some(now + 109 * SECOND));
        // A shorter limit is checked in time.
        deadlines.in_round(a, 100, SECOND, now + 100 * SECOND);
        assert_eq!(deadlines.next(), Some(now + 101 * SECOND));
        let overdue = deadlines.take_overdue(now + 101 * SECOND).expect("it is");
        assert_eq!(overdue.round, 100);
        assert!(deadlines.next().is_none() && deadlines.rounds.is_empty());
    }

    #[test]
    fn nothing_is_left_of_a_transfer_that_is_gone_or_may_take_for_ever() {
        let ([a, b], now) = (keys(), Instant::now());
        let mut deadlines = Deadlines::default();
        deadlines.in_round(a, 1, Duration::MAX, now);
        assert_eq!(deadlines.next(), None);
        deadlines.set_limit(b, Some(SECOND));
        assert_eq!((deadlines.limit_of(a), deadlines.limit_of(b)), (None, Some(SECOND)));
        deadlines.in_round(b, 1, SECOND, now);
        deadlines.remove(b);
        assert_eq!((deadlines.next(), deadlines.limit_of(b)), (None, None));
        assert_eq!(deadlines.take_overdue(now + 9 * SECOND), None);
    }
}
