//! What one end knows of the small messages on the link, both ways. Pure.

use std::collections::TryReserveError;

use super::operation::NewOperation;
use super::room::{Allowed, Given, KeptTerms};
use super::tag_queues::{Place, TagQueues};
use crate::frames::eager_terms::EagerTerms;
use crate::types::OpKey;

/// With so many bytes unsent on the link, messages go the other way.
pub(super) const LINK_BYTES: usize = 256 << 10;

/// A message of the peer that waits for its receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) bytes: u64,
}

/// The books of one end.
#[derive(Debug)]
pub(super) struct EagerBooks {
    pub(super) terms: EagerTerms,
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
    /// Bytes of messages that the link may take now.
    pub(super) link_room: usize,
    /// Nothing waits there for the kernel.
    pub(super) is_link_clear: bool,
    /// Operations of the batch that is being posted.
    pub(super) batch: usize,
}

impl EagerBooks {
    pub(super) fn new(terms: EagerTerms, kept: &KeptTerms) -> Self {
        Self {
            terms,
            ahead: TagQueues::default(),
            allowed: Allowed::new(kept.own_ahead(&terms)),
            receives: TagQueues::default(),
            kept: TagQueues::default(),
            buffer_used: 0,
            given: kept.ahead(&terms),
            numbers_used: 0,
            link_room: LINK_BYTES,
            is_link_clear: true,
            batch: 0,
        }
    }

    /// Most bytes of a message on the link.
    pub(super) fn most_bytes(&self) -> usize {
        self.terms.longest() as usize
    }

    /// Messages of ours that went ahead and have no receive, as far as we know.
    pub(super) fn unreceived(&self) -> usize {
        self.ahead.len()
    }

    /// Where a receive that is announced waits for a message that crosses the announcement; the
    /// null place if none can.
    #[inline]
    pub(super) fn await_message(&mut self, tag: i64, recv: OpKey) -> Place {
        if self.terms.buffer == 0 { Place::default() } else { self.receives.push(tag, recv) }
    }

    /// A receive at this place waits no more.
    #[inline]
    pub(super) fn waits_no_more(&mut self, place: Place) {
        if self.terms.buffer > 0 {
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
        if self.terms.buffer == 0 { Ok(()) } else { self.receives.make_room(receives) }
    }

    /// Gives back what nothing needs of that.
    pub(super) fn give_room_back(&mut self) {
        self.receives.give_room_back();
    }

    /// Whether a message is small enough to travel on the link, from where it is.
    pub(super) fn allows(&self, member: &NewOperation) -> bool {
        self.terms.allows(member.bytes) && self.terms.reaches(member.span.memory)
    }
}
