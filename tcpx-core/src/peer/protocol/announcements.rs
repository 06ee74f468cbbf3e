//! What one end knows of announced receives, both ways. Pure.

use std::collections::TryReserveError;
use std::sync::Arc;

use super::action::Violation;
use super::tag_queues::TagQueues;
use crate::types::OpKey;
use crate::types::kept_budget::{KeptBudget, Share};

/// What it takes to keep an announced receive, in bytes.
pub(super) const ANNOUNCED_COST: u64 = 192;
/// Of what is free, a peer gets no more than one in so many bytes before it needs it,
const AT_FIRST: u64 = 64;
/// and than one in so many when it does.
const AT_ONCE: u64 = 2;
/// Receives that a peer may announce and that have no counterpart, whatever others do.
pub(crate) const LEAST_ANNOUNCED: u64 = 256;
/// Those that it may announce unasked, as long as there is memory.
pub(crate) const USUAL_ANNOUNCED: u64 = 4096;
/// Most of them ever: a bound on what an end has to count, far above any real backlog.
pub(super) const MAX_ANNOUNCED: usize = 1 << 22;

/// What an end keeps for its peer.
#[derive(Clone, Debug)]
pub(crate) struct KeptTerms {
    pub(crate) budget: Arc<KeptBudget>,
    /// [`LEAST_ANNOUNCED`] and [`USUAL_ANNOUNCED`], but for tests.
    pub(crate) least: u64,
    pub(crate) usual: u64,
}

impl KeptTerms {
    pub(crate) fn new(budget: &Arc<KeptBudget>) -> Self {
        let budget = Arc::clone(budget);
        Self { budget, least: LEAST_ANNOUNCED, usual: USUAL_ANNOUNCED }
    }
}

/// The books of one end, both ways.
#[derive(Debug)]
pub(super) struct Announcing {
    /// Receives that the peer takes, and that were announced to it, so far.
    pub(super) allowed: u64,
    pub(super) said: u64,
    /// Receives of ours for which there was none, and which wait to be announced.
    pub(super) unannounced: TagQueues<OpKey>,
    /// Receives that the peer may announce, and has announced, so far.
    granted: u64,
    pub(super) heard: u64,
    usual: u64,
    share: Share,
    /// Receives that were kept, and had been announced, at the last look whether to grant more.
    seen: (u64, u64),
}

impl Announcing {
    pub(super) fn new(terms: &KeptTerms) -> Self {
        Self {
            allowed: 0,
            said: 0,
            unannounced: TagQueues::default(),
            granted: 0,
            heard: 0,
            usual: terms.usual,
            share: Share::new(&terms.budget, terms.least * ANNOUNCED_COST),
            seen: (0, 0),
        }
    }

    /// Whether the peer takes another receive.
    fn may_say(&self) -> bool {
        self.said < self.allowed
    }

    /// Whether a receive that is posted now is announced at once.
    #[inline]
    pub(super) fn is_next(&self) -> bool {
        self.may_say() && self.unannounced.len() == 0
    }

    /// Whether a receive that waits may be announced.
    pub(super) fn has_next(&self) -> bool {
        self.may_say() && self.unannounced.len() > 0
    }

    /// The peer announces a receive. Its number, if it may.
    #[inline]
    pub(super) fn hear(&mut self) -> Result<u64, Violation> {
        if self.heard >= self.granted {
            return Err(Violation::TooManyAnnounced { limit: self.granted });
        }
        self.heard += 1;
        Ok(self.heard - 1)
    }

    /// What the peer may announce at first.
    pub(super) fn first(&mut self) -> u64 {
        self.granted = self.share.take(self.usual, ANNOUNCED_COST, AT_FIRST);
        self.granted
    }

    /// What the peer may announce now, if that is worth a word. So many that it has announced are
    /// kept.
    #[inline]
    pub(super) fn renew(&mut self, kept: u64) -> Option<u64> {
        let left = self.granted - self.heard;
        // A peer that may announce none waits for memory, which others may have freed.
        if left > 0 && self.seen == (kept, self.heard) {
            return None;
        }
        self.seen = (kept, self.heard);
        self.grant_more(kept, left)
    }

    fn grant_more(&mut self, kept: u64, left: u64) -> Option<u64> {
        self.share.hold((kept + left) * ANNOUNCED_COST);
        let wanted = kept.max(self.usual).min((MAX_ANNOUNCED as u64).saturating_sub(kept));
        if 2 * left >= wanted {
            return None;
        }
        // As little as there is, if the peer waits for it; else not a word for each.
        let more = self.share.take(wanted - left, ANNOUNCED_COST, AT_ONCE);
        if more == 0 || (left > 0 && 8 * more < left + kept) {
            self.share.give_back(more * ANNOUNCED_COST);
            return None;
        }
        self.granted += more;
        Some(self.granted)
    }

    /// Makes room for so many receives that are posted next, those that are announced at once not
    /// among them.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        let at_once = if self.unannounced.len() == 0 { self.allowed - self.said } else { 0 };
        self.unannounced.make_room(count.saturating_sub(at_once as usize))
    }
}
