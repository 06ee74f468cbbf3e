//! What one end keeps for its peer, and what it knows of announced receives. Pure.

use std::collections::TryReserveError;
use std::sync::Arc;

use super::room::{Allowed, Given, RoomTerms};
use super::tag_queues::TagQueues;
use crate::frames::eager_terms::EagerTerms;
use crate::frames::keeping::Keeping;
use crate::types::MAX_NOTIFICATION_BYTES;
use crate::types::OpKey;
use crate::types::kept_budget::{KeptBudget, Share};
use crate::types::{TELL_AFTER, note_cost};

/// What it takes to keep an announced receive, in bytes.
pub(super) const ANNOUNCED_COST: u64 = 192;
/// Receives that a peer may announce and that have no counterpart, whatever others do.
pub const LEAST_ANNOUNCED: u64 = 256;
/// Those that it may announce unasked, as long as there is memory.
pub const USUAL_ANNOUNCED: u64 = 4096;
/// Most of them ever: a bound on what an end has to count, far above any real backlog.
pub(super) const MAX_ANNOUNCED: usize = 1 << 22;

/// Bytes of messages that go ahead of their receives, whatever others do, and before a word,
const LEAST_AHEAD: u64 = 8 << 10;
/// and unasked, as long as there is memory.
const USUAL_AHEAD: u64 = 256 << 10;
/// Bytes of notifications likewise.
const USUAL_NOTES: u64 = 1 << 20;

/// What an end keeps for its peer.
#[derive(Clone, Debug)]
pub struct KeptTerms {
    /// What all peers of the session may take.
    pub budget: Arc<KeptBudget>,
    /// Receives that a peer may always announce, [`LEAST_ANNOUNCED`] but for tests. Both ends of a
    /// link have the same.
    pub least: u64,
    /// Those that it may announce as long as there is memory, [`USUAL_ANNOUNCED`] but for tests.
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

    /// Room for receives that the peer announces.
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

    /// Room for messages of the peer that go ahead.
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

    /// Bytes of messages that go ahead to the peer without a word of it.
    pub(super) fn own_ahead(&self, eager: &EagerTerms) -> u64 {
        self.least_ahead.min(eager.peer_buffer)
    }

    /// Room for notifications of the peer, most of which is agreed. When the program has taken all,
    /// the longest has room, although the queue may not have said all of it.
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

    /// Whether a receive that is posted now is announced at once.
    #[inline]
    pub(super) fn is_next(&self) -> bool {
        self.allowed.has(1) && self.unannounced.len() == 0
    }

    /// Whether a receive that waits may be announced.
    pub(super) fn has_next(&self) -> bool {
        self.allowed.has(1) && self.unannounced.len() > 0
    }

    /// Makes room for so many receives that are posted next, those that are announced at once not
    /// among them.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        let Allowed { allowed, sent } = self.allowed;
        let at_once = if self.unannounced.len() == 0 { allowed - sent } else { 0 };
        self.unannounced.make_room(count.saturating_sub(at_once as usize))
    }
}
