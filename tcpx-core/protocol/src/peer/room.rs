//! How much each end may make the other keep, of one kind. Pure.
//!
//! What is a peer's own may come without a word. The end that keeps says how much more may,
//! counted from the beginning, as far as it has memory: some at first, and more as what came is
//! taken, or as long as others do not need it. Numbers only grow, and need no answer. So what was
//! said is held until it has come and was taken.

use super::action::Violation;
use crate::frames::keeping::Keeping;
use crate::types::kept_budget::Share;

/// Of what is free, a peer gets no more than one in so many bytes before it needs it,
const AT_FIRST: u64 = 64;
/// and than one in so many when it does.
const AT_ONCE: u64 = 2;
/// One in so many of what is usual is said at first, so that many may be idle.
const FIRST: u64 = 8;
/// No word for less than one in so many of what may come and is kept.
const WORTH_A_WORD: u64 = 8;

/// What both ends know of one kind, or one of them decides. Numbers are units of `unit_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomTerms {
    pub(super) what: Keeping,
    /// What it takes to keep a unit, in bytes.
    pub(super) unit_bytes: u64,
    /// Units that are the peer's own, whatever others do. Both ends know how many.
    pub(super) own: u64,
    /// Those that it may send unasked, as long as there is memory.
    pub(super) usual: u64,
    /// Most that are kept, ever.
    pub(super) most: u64,
    /// The longest of what is kept.
    pub(super) longest: u64,
}

/// What this end gives its peer.
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

/// What the peer gives this end.
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

    /// What may come.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// So many units come. Whether they may.
    #[inline]
    pub(super) fn comes(&mut self, units: u64) -> bool {
        let may_come = units <= self.given - self.came;
        if may_come {
            self.came += units;
        }
        may_come
    }

    /// What may come at first, if that is more than what is the peer's own.
    pub(super) fn first(&mut self) -> Option<u64> {
        let RoomTerms { unit_bytes, usual, most, .. } = self.terms;
        let more = (usual / FIRST).min(most).saturating_sub(self.given);
        let more = self.share.take(more, unit_bytes, AT_FIRST);
        self.given += more;
        (more > 0).then_some(self.given)
    }

    /// Looks at how much of what came is kept. Whether it may be time to [give](Self::give) more.
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

    /// What may come from now on, if that is more and worth a word.
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

    /// Nothing is kept here any more.
    pub(super) fn let_go(&mut self) {
        self.share.hold(0);
    }
}

impl Allowed {
    /// Before the peer has said anything, this end sends as many units as are its own there.
    pub(super) fn new(own: u64) -> Self {
        Self { allowed: own, sent: 0 }
    }

    /// Whether so many units may be sent.
    #[inline]
    pub(super) fn has(&self, units: u64) -> bool {
        self.sent.checked_add(units).is_some_and(|sent| sent <= self.allowed)
    }

    /// The peer takes so many, counted from the first one.
    pub(super) fn hear(&mut self, what: Keeping, now: u64) -> Result<(), Violation> {
        let before = std::mem::replace(&mut self.allowed, now);
        if now < before {
            return Err(Violation::RoomTakenBack { what, before, now });
        }
        Ok(())
    }
}
