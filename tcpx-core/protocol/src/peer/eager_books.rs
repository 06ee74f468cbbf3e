//! What one end knows of the small messages on the link, both ways. Pure.

use std::collections::TryReserveError;

use super::room::{Allowed, Given, KeptTerms};
use super::tag_queues::{Place, TagQueues};
use crate::frames::eager_terms::EagerTerms;
use crate::types::OpKey;

/// A message of the peer that waits for its receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) bytes: u64,
}

/// The books of one end.
#[derive(Debug)]
pub(super) struct EagerBooks {
    /// Whether messages may go ahead to this end.
    takes_ahead: bool,
    /// Messages of ours that went ahead and have no receive, as far as we know.
    pub(super) ahead: TagQueues<()>,
    /// What the peer takes, and what went there.
    pub(super) allowed: Allowed,
    /// Receives of ours that wait for their send, if messages may go ahead to them.
    pub(super) receives: TagQueues<OpKey>,
    /// Messages of the peer that wait for their receives.
    pub(super) kept: TagQueues<Kept>,
    /// What those take together.
    pub(super) buffer_used: u64,
    /// What the peer may send ahead.
    pub(super) given: Given,
    pub(super) numbers_used: u64,
    /// Operations of the batch that is being posted.
    pub(super) batch: usize,
}

impl EagerBooks {
    pub(super) fn new(terms: &EagerTerms, kept: &KeptTerms) -> Self {
        Self {
            takes_ahead: terms.buffer > 0,
            ahead: TagQueues::default(),
            allowed: Allowed::new(kept.own_ahead(terms)),
            receives: TagQueues::default(),
            kept: TagQueues::default(),
            buffer_used: 0,
            given: kept.ahead(terms),
            numbers_used: 0,
            batch: 0,
        }
    }

    /// Messages of ours that went ahead and have no receive, as far as we know.
    pub(super) fn unreceived(&self) -> usize {
        self.ahead.len()
    }

    /// Where a receive that is announced waits for a message that crosses the announcement; the
    /// null place if none can.
    #[inline]
    pub(super) fn await_message(&mut self, tag: i64, recv: OpKey) -> Place {
        if self.takes_ahead { self.receives.push(tag, recv) } else { Place::default() }
    }

    /// A receive at this place waits no more.
    #[inline]
    pub(super) fn waits_no_more(&mut self, place: Place) {
        if self.takes_ahead {
            self.receives.remove(place);
        }
    }

    /// The peer has posted a receive of this tag, or threw a message away. Whether one of ours went
    /// ahead of it.
    #[inline]
    pub(super) fn strike_out(&mut self, tag: i64) -> bool {
        self.ahead.len() > 0 && self.ahead.pop(tag).is_some()
    }

    /// Makes room for so many receives that wait.
    pub(super) fn make_room(&mut self, receives: usize) -> Result<(), TryReserveError> {
        if self.takes_ahead { self.receives.make_room(receives) } else { Ok(()) }
    }

    /// Gives back what nothing needs of that.
    pub(super) fn give_room_back(&mut self) {
        self.receives.give_room_back();
    }
}
