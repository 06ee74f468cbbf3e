//! Room that each end gives the other for one kind of what is kept. Pure.
//!
//! A peer's own room may be used without a word. The end that keeps says how much more may come,
//! counted from the beginning, while it has memory. It gives some at first. It gives more as what
//! came is taken, or as long as others do not need the memory. Numbers only grow, and need no
//! answer. So room that was given is held until it has been used and what came was taken.
//!
//! The module also holds what one end keeps for its peer, and what it knows of announced receives.
//! Pure.

use std::collections::TryReserveError;
use std::sync::Arc;

use super::action::Violation;
use super::tags::tag_queues::TagQueues;
use crate::frames::eager_terms::{EagerTerms, Keeping};
use crate::types::kept_budget::{KeptBudget, Share};
use crate::types::{MAX_NOTIFICATION_BYTES, OpKey, TELL_AFTER, note_cost};

/// Divisor of what is free that gives the most that a peer gets before it needs more.
const AT_FIRST: u64 = 64;
/// Divisor of what is free that gives the most that a peer gets when it needs more.
const AT_ONCE: u64 = 2;
/// Divisor of the usual that gives the room at first, so that many peers may be idle.
const FIRST: u64 = 8;
/// Divisor of what may come and is kept that gives the least that is worth a word.
const WORTH_A_WORD: u64 = 8;

/// Terms of one kind, known to both ends or decided by one of them. Numbers are units of
/// `unit_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomTerms {
    pub(super) what: Keeping,
    /// Cost of keeping a unit, in bytes.
    pub(super) unit_bytes: u64,
    /// Units that are the peer's own, whatever others do. Both ends know how many.
    pub(super) own: u64,
    /// Units that it may send unasked, as long as there is memory.
    pub(super) usual: u64,
    /// Most that are kept, ever.
    pub(super) most: u64,
    /// The longest of what is kept.
    pub(super) longest: u64,
}

/// Room that this end gives its peer.
#[derive(Debug)]
pub(super) struct Given {
    terms: RoomTerms,
    /// Units that may come, and have come, so far.
    given: u64,
    pub(super) came: u64,
    share: Share,
    /// Units that were kept, and had come, at the last look whether to give more.
    seen: (u64, u64),
}

/// Room that the peer gives this end.
#[derive(Debug)]
pub(super) struct Allowed {
    /// Units that may be sent, and were sent, so far.
    pub(super) allowed: u64,
    pub(super) sent: u64,
}

impl Given {
    pub(super) fn new(terms: RoomTerms, mut share: Share) -> Self {
        share.hold(terms.own * terms.unit_bytes);
        Self { terms, given: terms.own, came: 0, share, seen: (0, 0) }
    }

    /// Returns the room that the peer may use.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// Counts `units` units that come. Returns whether they may.
    #[inline]
    pub(super) fn comes(&mut self, units: u64) -> bool {
        let may_come = units <= self.given - self.came;
        if may_come {
            self.came += units;
        }
        may_come
    }

    /// Returns the room at first, if it is more than the peer's own.
    pub(super) fn first(&mut self) -> Option<u64> {
        let RoomTerms { unit_bytes, usual, most, .. } = self.terms;
        let more = (usual / FIRST).min(most).saturating_sub(self.given);
        let more = self.share.take(more, unit_bytes, AT_FIRST);
        self.given += more;
        (more > 0).then_some(self.given)
    }

    /// Looks at how much of what came is kept. Returns whether it may be time to [give](Self::give)
    /// more.
    #[inline]
    pub(super) fn look(&mut self, kept: u64) -> bool {
        let left = self.given - self.came;
        // A peer whose next may not come waits for memory, which others may have freed.
        if left >= self.terms.longest && self.seen == (kept, self.came) {
            return false;
        }
        self.seen = (kept, self.came);
        self.share.hold((kept + left) * self.terms.unit_bytes);
        true
    }

    /// Returns the room from now on, if it is more than before and worth a word.
    pub(super) fn give(&mut self) -> Option<u64> {
        let RoomTerms { unit_bytes, usual, most, longest, .. } = self.terms;
        let (kept, left) = (self.seen.0, self.given - self.came);
        let wanted = kept.max(usual).min(most.saturating_sub(kept));
        if left >= wanted || (left >= longest && 2 * left >= wanted) {
            return None;
        }
        let more = self.share.take(wanted - left, unit_bytes, AT_ONCE);
        let is_worth_it = match left < longest {
            // The peer may wait with the longest there is.
            true => left + more >= longest || WORTH_A_WORD * more >= longest,
            false => WORTH_A_WORD * more >= left + kept,
        };
        if more == 0 || !is_worth_it {
            self.share.give_back(more * unit_bytes);
            return None;
        }
        self.given += more;
        Some(self.given)
    }

    /// Returns the violation of a peer that sends more than it may.
    #[cold]
    pub(super) fn refused(&self, what: Keeping) -> Violation {
        Violation::NoRoom { what, limit: self.given }
    }

    /// Gives the room back: nothing is kept here any more.
    pub(super) fn let_go(&mut self) {
        self.share.hold(0);
    }
}

impl Allowed {
    /// Makes the room before the peer has said anything: this end sends as many units as are its
    /// own there.
    pub(super) fn new(own: u64) -> Self {
        Self { allowed: own, sent: 0 }
    }

    /// Returns whether this many units may be sent.
    #[inline]
    pub(super) fn has(&self, units: u64) -> bool {
        self.sent.checked_add(units).is_some_and(|sent| sent <= self.allowed)
    }

    /// Notes that the peer takes this many units, counted from the first one.
    pub(super) fn hear(&mut self, what: Keeping, now: u64) -> Result<(), Violation> {
        let before = std::mem::replace(&mut self.allowed, now);
        if now < before {
            return Err(Violation::RoomTakenBack { what, before, now });
        }
        Ok(())
    }
}

/// Cost of keeping an announced receive, in bytes.
pub(super) const ANNOUNCED_COST: u64 = 192;
/// Receives that a peer may announce and that have no counterpart, whatever others do.
pub const LEAST_ANNOUNCED: u64 = 256;
/// Receives that it may announce unasked, as long as there is memory.
pub const USUAL_ANNOUNCED: u64 = 4096;
/// Most of them ever: a bound on what an end has to count, far above any real backlog.
pub(super) const MAX_ANNOUNCED: usize = 1 << 22;

/// Bytes of messages that go ahead of their receives, whatever others do, and before a word,
const LEAST_AHEAD: u64 = 8 << 10;
/// and unasked, as long as there is memory.
const USUAL_AHEAD: u64 = 256 << 10;
/// Bytes of notifications likewise.
const USUAL_NOTES: u64 = 1 << 20;

/// Limits on what an end keeps for its peer.
#[derive(Clone, Debug)]
pub struct KeptTerms {
    /// Budget of all peers of the session.
    pub budget: Arc<KeptBudget>,
    /// Receives that a peer may always announce, [`LEAST_ANNOUNCED`] but for tests. Both ends of a
    /// link have the same.
    pub least: u64,
    /// Receives that it may announce as long as there is memory, [`USUAL_ANNOUNCED`] but for tests.
    pub usual: u64,
    /// Bytes of messages ahead that a peer may always send, `LEAST_AHEAD` but for tests. Both ends
    /// of a link have the same.
    pub least_ahead: u64,
}

impl KeptTerms {
    /// Makes the terms of a session.
    pub fn new(budget: &Arc<KeptBudget>) -> Self {
        let budget = Arc::clone(budget);
        Self { budget, least: LEAST_ANNOUNCED, usual: USUAL_ANNOUNCED, least_ahead: LEAST_AHEAD }
    }

    /// Returns the room for receives that the peer announces.
    fn receives(&self) -> Given {
        self.given(RoomTerms {
            what: Keeping::Receives,
            unit_bytes: ANNOUNCED_COST,
            own: self.least,
            usual: self.usual,
            most: MAX_ANNOUNCED as u64,
            longest: 1,
        })
    }

    /// Returns the room for messages of the peer that go ahead.
    pub(super) fn ahead(&self, eager: &EagerTerms) -> Given {
        let most = eager.buffer;
        self.given(RoomTerms {
            what: Keeping::Ahead,
            unit_bytes: 1,
            own: self.least_ahead.min(most),
            usual: USUAL_AHEAD.min(most),
            most,
            longest: EagerTerms::cost(eager.longest()).min(most),
        })
    }

    /// Returns the number of bytes of messages that go ahead to the peer without a word of it.
    pub(super) fn own_ahead(&self, eager: &EagerTerms) -> u64 {
        self.least_ahead.min(eager.peer_buffer)
    }

    /// Returns the room for notifications of the peer, with the agreed limit. When the program has
    /// taken all, the longest notification has room, although the queue may not have said all of
    /// it.
    pub(super) fn notes(&self, most: u64) -> Given {
        let untold = TELL_AFTER.min(most / 4);
        let longest = note_cost(MAX_NOTIFICATION_BYTES as usize).min(most - untold);
        self.given(RoomTerms {
            what: Keeping::Notes,
            unit_bytes: 1,
            own: longest + untold,
            usual: USUAL_NOTES.min(most),
            most,
            longest,
        })
    }

    fn given(&self, terms: RoomTerms) -> Given {
        Given::new(terms, Share::new(&self.budget, terms.own * terms.unit_bytes))
    }
}

/// The books of one end, both ways.
#[derive(Debug)]
pub(super) struct Announcing {
    /// Receives that the peer takes, and that were announced to it.
    pub(super) allowed: Allowed,
    /// Receives of ours for which there was none, and which wait to be announced.
    pub(super) unannounced: TagQueues<OpKey>,
    /// Receives that the peer may announce.
    pub(super) given: Given,
}

impl Announcing {
    pub(super) fn new(terms: &KeptTerms) -> Self {
        let given = terms.receives();
        let allowed = Allowed::new(terms.least);
        Self { allowed, unannounced: TagQueues::default(), given }
    }

    /// Returns whether a receive that is posted now is announced at once.
    #[inline]
    pub(super) fn is_next(&self) -> bool {
        self.allowed.has(1) && self.unannounced.len() == 0
    }

    /// Returns whether a receive that waits may be announced.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        self.allowed.has(1) && self.unannounced.len() > 0
    }

    /// Makes room for `count` receives that are posted next, those that are announced at once not
    /// among them.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        let Allowed { allowed, sent } = self.allowed;
        let at_once = if self.unannounced.len() == 0 { allowed - sent } else { 0 };
        self.unannounced.make_room(count.saturating_sub(at_once as usize))
    }
}
