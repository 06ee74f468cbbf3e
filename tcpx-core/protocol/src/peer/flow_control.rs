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

use super::tags::tag_queues::TagQueues;
use super::violation::Violation;
use crate::frames::eager_terms::{CreditKind, EagerTerms};
use crate::types::peer_budget::{BudgetShare, PeerBudget};
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
pub(super) struct CreditLimits {
    pub(super) what: CreditKind,
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
pub(super) struct IncomingCredit {
    terms: CreditLimits,
    /// Units that may come, and have come, so far.
    granted: u64,
    pub(super) received: u64,
    share: BudgetShare,
    /// Units that were kept, and had come, at the last look whether to give more.
    seen: (u64, u64),
}

/// Room that the peer gives this end.
#[derive(Debug)]
pub(super) struct OutgoingCredit {
    /// Units that may be sent, and were sent, so far.
    pub(super) granted: u64,
    pub(super) sent: u64,
}

impl IncomingCredit {
    pub(super) fn new(terms: CreditLimits, mut share: BudgetShare) -> Self {
        share.hold(terms.own * terms.unit_bytes);
        Self { terms, granted: terms.own, received: 0, share, seen: (0, 0) }
    }

    /// Returns the room that the peer may use.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Counts `units` units that come. Returns whether they may.
    #[inline]
    pub(super) fn receive(&mut self, units: u64) -> bool {
        let may_come = units <= self.granted - self.received;
        if may_come {
            self.received += units;
        }
        may_come
    }

    /// Returns the room at first, if it is more than the peer's own.
    pub(super) fn first_grant(&mut self) -> Option<u64> {
        let CreditLimits { unit_bytes, usual, most, .. } = self.terms;
        let more = (usual / FIRST).min(most).saturating_sub(self.granted);
        let more = self.share.take(more, unit_bytes, AT_FIRST);
        self.granted += more;
        (more > 0).then_some(self.granted)
    }

    /// Looks at how much of what came is kept. Returns whether it may be time to
    /// [grant](Self::grant) more.
    #[inline]
    pub(super) fn needs_grant(&mut self, kept: u64) -> bool {
        let left = self.granted - self.received;
        // A peer whose next may not come waits for memory, which others may have freed.
        if left >= self.terms.longest && self.seen == (kept, self.received) {
            return false;
        }
        self.seen = (kept, self.received);
        self.share.hold((kept + left) * self.terms.unit_bytes);
        true
    }

    /// Returns the room from now on, if it is more than before and worth a word.
    pub(super) fn grant(&mut self) -> Option<u64> {
        let CreditLimits { unit_bytes, usual, most, longest, .. } = self.terms;
        let (kept, left) = (self.seen.0, self.granted - self.received);
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
        self.granted += more;
        Some(self.granted)
    }

    /// Returns the violation of a peer that sends more than it may.
    #[cold]
    pub(super) fn refused(&self, what: CreditKind) -> Violation {
        Violation::NoRoom { what, limit: self.granted }
    }

    /// Gives the room back: nothing is kept here any more.
    pub(super) fn release(&mut self) {
        self.share.hold(0);
    }
}

impl OutgoingCredit {
    /// Makes the room before the peer has said anything: this end sends as many units as are its
    /// own there.
    pub(super) fn new(own: u64) -> Self {
        Self { granted: own, sent: 0 }
    }

    /// Returns whether this many units may be sent.
    #[inline]
    pub(super) fn has(&self, units: u64) -> bool {
        self.sent.checked_add(units).is_some_and(|sent| sent <= self.granted)
    }

    /// Notes that the peer takes this many units, counted from the first one.
    pub(super) fn handle_grant(&mut self, what: CreditKind, now: u64) -> Result<(), Violation> {
        let before = std::mem::replace(&mut self.granted, now);
        if now < before {
            return Err(Violation::RoomTakenBack { what, before, now });
        }
        Ok(())
    }
}

/// Cost of keeping an announced receive, in bytes.
pub(super) const POSTED_RECEIVE_COST: u64 = 192;
/// Receives that a peer may announce and that have no counterpart, whatever others do.
pub const LEAST_POSTED_RECEIVES: u64 = 256;
/// Receives that it may announce unasked, as long as there is memory.
pub const USUAL_POSTED_RECEIVES: u64 = 4096;
/// Most of them ever: a bound on what an end has to count, far above any real backlog.
pub(super) const MAX_POSTED_RECEIVES: usize = 1 << 22;

/// Bytes of messages that go ahead of their receives, whatever others do, and before a word,
const LEAST_UNEXPECTED: u64 = 8 << 10;
/// and unasked, as long as there is memory.
const USUAL_UNEXPECTED: u64 = 256 << 10;
/// Bytes of notifications likewise.
const USUAL_NOTES: u64 = 1 << 20;

/// Limits on what an end keeps for its peer.
#[derive(Clone, Debug)]
pub struct FlowTerms {
    /// Budget of all peers of the session.
    pub budget: Arc<PeerBudget>,
    /// Receives that a peer may always announce, [`LEAST_POSTED_RECEIVES`] but for tests. Both ends
    /// of a link have the same.
    pub least: u64,
    /// Receives that it may announce as long as there is memory, [`USUAL_POSTED_RECEIVES`] but for
    /// tests.
    pub usual: u64,
    /// Bytes of messages ahead that a peer may always send, `LEAST_UNEXPECTED` but for tests. Both
    /// ends of a link have the same.
    pub least_unexpected: u64,
}

impl FlowTerms {
    /// Makes the terms of a session.
    pub fn new(budget: &Arc<PeerBudget>) -> Self {
        let budget = Arc::clone(budget);
        Self {
            budget,
            least: LEAST_POSTED_RECEIVES,
            usual: USUAL_POSTED_RECEIVES,
            least_unexpected: LEAST_UNEXPECTED,
        }
    }

    /// Returns the room for receives that the peer announces.
    fn receives(&self) -> IncomingCredit {
        self.given(CreditLimits {
            what: CreditKind::Receives,
            unit_bytes: POSTED_RECEIVE_COST,
            own: self.least,
            usual: self.usual,
            most: MAX_POSTED_RECEIVES as u64,
            longest: 1,
        })
    }

    /// Returns the room for messages of the peer that go ahead.
    pub(super) fn unexpected(&self, eager: &EagerTerms) -> IncomingCredit {
        let most = eager.buffer;
        self.given(CreditLimits {
            what: CreditKind::Unexpected,
            unit_bytes: 1,
            own: self.least_unexpected.min(most),
            usual: USUAL_UNEXPECTED.min(most),
            most,
            longest: EagerTerms::cost(eager.longest()).min(most),
        })
    }

    /// Returns the number of bytes of messages that go ahead to the peer without a word of it.
    pub(super) fn own_unexpected(&self, eager: &EagerTerms) -> u64 {
        self.least_unexpected.min(eager.peer_buffer)
    }

    /// Returns the room for notifications of the peer, with the agreed limit. When the program has
    /// taken all, the longest notification has room, although the queue may not have said all of
    /// it.
    pub(super) fn notes(&self, most: u64) -> IncomingCredit {
        let untold = TELL_AFTER.min(most / 4);
        let longest = note_cost(MAX_NOTIFICATION_BYTES as usize).min(most - untold);
        self.given(CreditLimits {
            what: CreditKind::Notes,
            unit_bytes: 1,
            own: longest + untold,
            usual: USUAL_NOTES.min(most),
            most,
            longest,
        })
    }

    fn given(&self, terms: CreditLimits) -> IncomingCredit {
        IncomingCredit::new(terms, BudgetShare::new(&self.budget, terms.own * terms.unit_bytes))
    }
}

/// The books of one end, both ways.
#[derive(Debug)]
pub(super) struct ReceiveCredit {
    /// Receives that the peer takes, and that were announced to it.
    pub(super) outgoing: OutgoingCredit,
    /// Receives of ours for which there was none, and which wait to be announced.
    pub(super) queued: TagQueues<OpKey>,
    /// Receives that the peer may announce.
    pub(super) incoming: IncomingCredit,
}

impl ReceiveCredit {
    pub(super) fn new(terms: &FlowTerms) -> Self {
        let incoming = terms.receives();
        let outgoing = OutgoingCredit::new(terms.least);
        Self { outgoing, queued: TagQueues::default(), incoming }
    }

    /// Returns whether a receive that is posted now is announced at once.
    #[inline]
    pub(super) fn is_next(&self) -> bool {
        self.outgoing.has(1) && self.queued.len() == 0
    }

    /// Returns whether a receive that waits may be announced.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        self.outgoing.has(1) && self.queued.len() > 0
    }

    /// Makes room for `count` receives that are posted next, those that are announced at once not
    /// among them.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        let OutgoingCredit { granted, sent } = self.outgoing;
        let at_once = if self.queued.len() == 0 { granted - sent } else { 0 };
        self.queued.make_room(count.saturating_sub(at_once as usize))
    }
}
