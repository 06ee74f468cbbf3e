//! Tagged messages of one end: sends and receives that find each other by their tags, what is
//! announced of them, and what goes ahead. Pure.
//!
//! `Tags` owns what is known of those that have no counterpart. How they are posted, matched,
//! sent ahead and withdrawn is in files of their own, which call down to this one.

pub(super) mod backlogs;
pub(super) mod eager_queues;
pub(super) mod expecting;
pub(super) mod matcher;
pub mod posting;
pub(super) mod ready_frames;
pub(super) mod receives;
pub(super) mod tag_queues;
pub mod withdrawing;

use std::collections::VecDeque;

use self::backlogs::{Backlogs, OpList};
use self::eager_queues::EagerQueues;
use self::matcher::Matcher;
use self::receives::MessageEnd;
use super::action::{Outcome, Withdrawal};
use super::conversation::Conversation;
use super::flow_control::{FlowTerms, ReceiveCredit};
use super::message::{Links, Message, NewOperation, State};
use super::violation::Violation;
use crate::frames::eager_terms::{CreditKind, EagerTerms};
use crate::plans::plan::Member;
use crate::types::{OpKey, TransferKey};

/// State of tagged messages at one end.
#[derive(Debug)]
pub(super) struct Tags {
    backlogs: Backlogs,
    /// Transfers whose waiting operations the program withdraws, in the order of their turns.
    cancelled: VecDeque<TransferKey>,
    /// Reason for which everything that waits ends, once an end has left.
    sweep: Option<Withdrawal>,
    /// Receives whose withdrawal the peer was asked for.
    cancelling: OpList,
    /// Operations that are withdrawn in one go.
    slice: usize,
    /// Receives of ours that have no counterpart yet.
    waiting_receives: usize,
    matcher: Matcher,
    eager: EagerQueues,
    /// The receive that was announced last.
    last_ready: Option<MessageEnd>,
    receives: ReceiveCredit,
}

impl Tags {
    pub(super) fn new(terms: &EagerTerms, kept: &FlowTerms, slice: usize) -> Self {
        Self {
            backlogs: Backlogs::default(),
            cancelled: VecDeque::new(),
            sweep: None,
            cancelling: OpList::default(),
            slice,
            waiting_receives: 0,
            matcher: Matcher::default(),
            eager: EagerQueues::new(terms, kept),
            last_ready: None,
            receives: ReceiveCredit::new(kept),
        }
    }

    /// Returns the number of sends of ours that no receive was announced for.
    pub(super) fn waiting_sends(&self) -> usize {
        self.matcher.waiting_sends()
    }

    /// Returns the one of them that has waited longest.
    pub(super) fn oldest_send(&self) -> Option<OpKey> {
        self.matcher.oldest_send()
    }

    /// Returns the number of receives that the peer has announced and no send of ours matches.
    pub(super) fn posted_receives(&self) -> usize {
        self.matcher.posted_receives()
    }

    /// Returns the number of receives of ours that the peer takes no announcement of for now.
    pub(super) fn queued_receives(&self) -> usize {
        self.receives.queued.len()
    }

    /// Returns the number of messages of this end that went ahead and have no receive, by what this
    /// end knows.
    pub(super) fn unreceived(&self) -> usize {
        self.eager.unreceived()
    }

    /// Returns the number of messages of the peer that wait here for their receives.
    pub(super) fn kept(&self) -> usize {
        self.eager.unexpected.len()
    }

    /// Prepares for this many operations, which are posted next as one batch.
    pub(super) fn begin_batch(&mut self, count: usize) {
        self.eager.batch = count;
    }

    /// Notes that the peer takes this many announced receives, or bytes ahead of them, from the
    /// first one on.
    pub(super) fn handle_credit_of(
        &mut self,
        what: CreditKind,
        count: u64,
    ) -> Result<(), Violation> {
        match what {
            CreditKind::Unexpected => self.eager.outgoing.handle_grant(what, count),
            _ => self.receives.outgoing.handle_grant(what, count),
        }
    }

    /// Returns the room that the peer may use at first, if it is more than the peer's own.
    pub(super) fn first_grants(&mut self) -> [Option<(CreditKind, u64)>; 2] {
        let receives =
            self.receives.incoming.first_grant().map(|count| (CreditKind::Receives, count));
        [receives, self.eager.incoming.first_grant().map(|count| (CreditKind::Unexpected, count))]
    }

    /// Returns whether it may be time to give the peer more room, for announced receives and for
    /// messages ahead of them.
    #[inline]
    pub(super) fn needs_grant(&mut self) -> [bool; 2] {
        let receives = self.receives.incoming.needs_grant(self.matcher.posted_receives() as u64);
        [receives, self.eager.incoming.needs_grant(self.eager.buffer_used)]
    }

    /// Gives what it may be time for. Returns what the peer may send from now on.
    pub(super) fn grant_room(&mut self, is_due: [bool; 2]) -> [Option<(CreditKind, u64)>; 2] {
        let receives = is_due[0].then(|| self.receives.incoming.grant()).flatten();
        let ahead = is_due[1].then(|| self.eager.incoming.grant()).flatten();
        [
            receives.map(|it| (CreditKind::Receives, it)),
            ahead.map(|it| (CreditKind::Unexpected, it)),
        ]
    }

    /// Returns an operation that needs not wait for its counterpart.
    pub(super) fn insert_matched(&mut self, cx: &mut Conversation, posted: NewOperation) -> OpKey {
        cx.operations.insert(Message::new(posted, State::Moving))
    }

    /// Returns a receive of ours that the peer names, as long as it waits for a match, and its
    /// bytes.
    pub(super) fn own_receive(&self, cx: &Conversation, recv: u64) -> Option<(OpKey, u64)> {
        let op = OpKey::from_wire(recv);
        let operation = cx.operations.get(op)?;
        operation.is_waiting_receive().then_some((op, operation.posted.bytes))
    }

    /// Begins a receive of ours that waited and has found its send; `bytes` bytes of it are
    /// scheduled.
    #[inline]
    pub(super) fn begin_receive(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        bytes_scheduled: u64,
    ) -> Option<Member> {
        let operation = cx.operations.get_mut(op)?;
        let (member, links) = (operation.member(op), operation.links);
        self.eager.remove_receive(operation.place);
        operation.cursor.scheduled = bytes_scheduled;
        let before = std::mem::replace(&mut operation.state, State::Moving);
        self.leave_list(cx, op, member.transfer, before, links);
        self.waiting_receives -= 1;
        Some(member)
    }

    /// Completes an operation that has ended.
    pub(super) fn complete(&mut self, cx: &mut Conversation, op: OpKey, outcome: Outcome) {
        let Some(operation) = cx.operations.remove(op) else { return };
        self.leave_list(cx, op, operation.posted.transfer, operation.state, operation.links);
        match operation.state {
            State::AwaitsReceive => self.matcher.withdraw_send(operation.place),
            State::ReadySent | State::Cancelling(_) => {
                self.eager.remove_receive(operation.place);
                self.waiting_receives -= 1;
            }
            State::ReadyQueued => {
                self.receives.queued.remove(operation.place);
                self.waiting_receives -= 1;
            }
            _ => {}
        }
        cx.completed(&operation.posted, outcome, None);
    }

    /// Takes an operation out of the list in which it stood between `links`. It was as `before`,
    /// and has found its counterpart or has ended.
    #[inline]
    pub(super) fn leave_list(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        transfer: TransferKey,
        before: State,
        links: Links,
    ) {
        match before {
            State::AwaitsReceive | State::ReadyQueued | State::ReadySent => {
                self.backlogs.end_to_wait((transfer, op), links, false, &mut cx.operations);
            }
            State::Cancelling(_) => {
                self.cancelling.remove(links, &mut cx.operations);
                self.backlogs.withdrawn_ended(transfer);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
impl Tags {
    /// Returns the announced receives and the bytes ahead of them that the peer takes, from the
    /// first one on.
    pub(super) fn allowed(&self) -> [u64; 2] {
        [self.receives.outgoing.granted, self.eager.outgoing.granted]
    }

    /// Returns the operations of each transfer that have not ended, and receives that are being
    /// withdrawn.
    pub(super) fn backlogs(&self) -> (&Backlogs, OpList) {
        (&self.backlogs, self.cancelling)
    }
}
