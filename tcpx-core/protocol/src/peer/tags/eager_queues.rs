//! Books of one end on the small messages on the link, both ways. Pure.

use std::collections::TryReserveError;

use super::super::flow_control::{FlowTerms, IncomingCredit, OutgoingCredit};
use super::tag_queues::{QueuePlace, TagQueues};
use crate::frames::eager_terms::EagerTerms;
use crate::types::OpKey;

/// A message of the peer that waits for its receive.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct UnexpectedMessage {
    pub(in super::super) number: u64,
    pub(in super::super) bytes: u64,
}

/// The books of one end.
#[derive(Debug)]
pub(in super::super) struct EagerQueues {
    /// Whether messages may go ahead to this end.
    accepts_unexpected: bool,
    /// Messages of ours that went ahead and have no receive, by what this end knows.
    pub(in super::super) sent: TagQueues<()>,
    /// Bytes that the peer takes, and bytes that went there.
    pub(in super::super) outgoing: OutgoingCredit,
    /// Receives of ours that wait for their send, if messages may go ahead to them.
    pub(in super::super) receives: TagQueues<OpKey>,
    /// Messages of the peer that wait for their receives.
    pub(in super::super) unexpected: TagQueues<UnexpectedMessage>,
    /// Bytes that those take together.
    pub(in super::super) buffer_used: u64,
    /// Bytes that the peer may send ahead.
    pub(in super::super) incoming: IncomingCredit,
    pub(in super::super) numbers_used: u64,
    /// Operations of the batch that is being posted.
    pub(in super::super) batch: usize,
}

impl EagerQueues {
    pub(in super::super) fn new(terms: &EagerTerms, kept: &FlowTerms) -> Self {
        Self {
            accepts_unexpected: terms.buffer > 0,
            sent: TagQueues::default(),
            outgoing: OutgoingCredit::new(kept.own_unexpected(terms)),
            receives: TagQueues::default(),
            unexpected: TagQueues::default(),
            buffer_used: 0,
            incoming: kept.unexpected(terms),
            numbers_used: 0,
            batch: 0,
        }
    }

    /// Returns the number of messages of ours that went ahead and have no receive, by what this end
    /// knows.
    pub(in super::super) fn unreceived(&self) -> usize {
        self.sent.len()
    }

    /// Lets an announced receive wait for a message that crosses the announcement. Returns its
    /// place; the null place if no message can.
    #[inline]
    pub(in super::super) fn add_receive(&mut self, tag: i64, recv: OpKey) -> QueuePlace {
        if self.accepts_unexpected { self.receives.push(tag, recv) } else { QueuePlace::default() }
    }

    /// Forgets a receive at this place that waits no more.
    #[inline]
    pub(in super::super) fn remove_receive(&mut self, place: QueuePlace) {
        if self.accepts_unexpected {
            self.receives.remove(place);
        }
    }

    /// Strikes out the oldest message of ours that went ahead with this tag: the peer has posted a
    /// receive of the tag, or threw a message away. Returns whether there was one.
    #[inline]
    pub(in super::super) fn match_oldest_sent(&mut self, tag: i64) -> bool {
        self.sent.len() > 0 && self.sent.pop(tag).is_some()
    }

    /// Makes room for this many receives that wait.
    pub(in super::super) fn make_room(&mut self, receives: usize) -> Result<(), TryReserveError> {
        if self.accepts_unexpected { self.receives.make_room(receives) } else { Ok(()) }
    }

    /// Gives back what nothing needs of that.
    pub(in super::super) fn give_room_back(&mut self) {
        self.receives.give_room_back();
    }
}
