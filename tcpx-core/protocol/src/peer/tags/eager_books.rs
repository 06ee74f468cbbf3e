//! Books of one end on the small messages on the link, both ways. Pure.

use std::collections::TryReserveError;

use super::super::room::{Allowed, Given, KeptTerms};
use super::tag_queues::{Place, TagQueues};
use crate::frames::eager_terms::EagerTerms;
use crate::types::OpKey;

/// A message of the peer that waits for its receive.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Kept {
    pub(in super::super) number: u64,
    pub(in super::super) bytes: u64,
}

/// The books of one end.
#[derive(Debug)]
pub(in super::super) struct EagerBooks {
    /// Whether messages may go ahead to this end.
    takes_ahead: bool,
    /// Messages of ours that went ahead and have no receive, by what this end knows.
    pub(in super::super) ahead: TagQueues<()>,
    /// Bytes that the peer takes, and bytes that went there.
    pub(in super::super) allowed: Allowed,
    /// Receives of ours that wait for their send, if messages may go ahead to them.
    pub(in super::super) receives: TagQueues<OpKey>,
    /// Messages of the peer that wait for their receives.
    pub(in super::super) kept: TagQueues<Kept>,
    /// Bytes that those take together.
    pub(in super::super) buffer_used: u64,
    /// Bytes that the peer may send ahead.
    pub(in super::super) given: Given,
    pub(in super::super) numbers_used: u64,
    /// Operations of the batch that is being posted.
    pub(in super::super) batch: usize,
}

impl EagerBooks {
    pub(in super::super) fn new(terms: &EagerTerms, kept: &KeptTerms) -> Self {
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

    /// Returns the number of messages of ours that went ahead and have no receive, by what this end
    /// knows.
    pub(in super::super) fn unreceived(&self) -> usize {
        self.ahead.len()
    }

    /// Lets an announced receive wait for a message that crosses the announcement. Returns its
    /// place; the null place if no message can.
    #[inline]
    pub(in super::super) fn await_message(&mut self, tag: i64, recv: OpKey) -> Place {
        if self.takes_ahead { self.receives.push(tag, recv) } else { Place::default() }
    }

    /// Forgets a receive at this place that waits no more.
    #[inline]
    pub(in super::super) fn waits_no_more(&mut self, place: Place) {
        if self.takes_ahead {
            self.receives.remove(place);
        }
    }

    /// Strikes out the oldest message of ours that went ahead with this tag: the peer has posted a
    /// receive of the tag, or threw a message away. Returns whether there was one.
    #[inline]
    pub(in super::super) fn strike_out(&mut self, tag: i64) -> bool {
        self.ahead.len() > 0 && self.ahead.pop(tag).is_some()
    }

    /// Makes room for this many receives that wait.
    pub(in super::super) fn make_room(&mut self, receives: usize) -> Result<(), TryReserveError> {
        if self.takes_ahead { self.receives.make_room(receives) } else { Ok(()) }
    }

    /// Gives back what nothing needs of that.
    pub(in super::super) fn give_room_back(&mut self) {
        self.receives.give_room_back();
    }
}
