//! Tagged messages of one end: sends and receives that find each other by their tags, what is
//! announced of them, and what goes ahead. Pure.
//!
//! [`Tags`] owns what is known of those that have no counterpart. How they are posted, matched,
//! sent ahead and withdrawn is in files of their own, which call down to this one.

use std::collections::VecDeque;

use super::action::{Action, Completion, Outcome};
use super::conversation::Conversation;
use super::eager_books::EagerBooks;
use super::matcher::Matcher;
use super::operation::{
    Backlogs, Links, NewOperation, OpList, OpState, PostedOperation, Withdrawal,
};
use super::receives::MessageEnd;
use super::room::{Announcing, KeptTerms};
use super::tag_queues::Place;
use crate::frames::eager_terms::EagerTerms;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::types::{Direction, OpKey, TransferKey};

/// What one end knows of tagged messages.
#[derive(Debug)]
pub(super) struct Tags {
    pub(super) backlogs: Backlogs,
    /// Transfers of which the program withdraws what waits, in the order of their turns.
    pub(super) cancelled: VecDeque<TransferKey>,
    /// How everything that waits ends, once an end has left.
    pub(super) sweep: Option<Withdrawal>,
    /// Receives whose withdrawal the peer was asked for.
    pub(super) cancelling: OpList,
    /// Operations that are withdrawn in one go.
    pub(super) slice: usize,
    /// Receives of ours that have no counterpart yet.
    pub(super) waiting_receives: usize,
    pub(super) matcher: Matcher,
    pub(super) eager: EagerBooks,
    /// The receive that was announced last.
    pub(super) last_announced: Option<MessageEnd>,
    pub(super) announcing: Announcing,
}

impl Tags {
    pub(super) fn new(terms: &EagerTerms, kept: &KeptTerms, slice: usize) -> Self {
        Self {
            backlogs: Backlogs::default(),
            cancelled: VecDeque::new(),
            sweep: None,
            cancelling: OpList::default(),
            slice,
            waiting_receives: 0,
            matcher: Matcher::default(),
            eager: EagerBooks::new(terms, kept),
            last_announced: None,
            announcing: Announcing::new(kept),
        }
    }

    /// An operation that needs not wait for its counterpart.
    pub(super) fn insert_matched(&mut self, cx: &mut Conversation, posted: NewOperation) -> OpKey {
        let state = OpState::Matched { bytes_left: posted.bytes, bytes_dealt: 0 };
        let (links, place) = (Links::default(), Place::default());
        cx.operations.insert(PostedOperation { posted, state, links, place })
    }

    /// A receive of ours that the peer names, as long as it waits for a match, and its bytes.
    pub(super) fn own_receive(&self, cx: &Conversation, recv: u64) -> Option<(OpKey, u64)> {
        let op = OpKey::from_wire(recv);
        let operation = cx.operations.get(op)?;
        operation.is_waiting_receive().then_some((op, operation.posted.bytes))
    }

    /// A receive of ours, which waits, has found its send; so many bytes of it are dealt.
    #[inline]
    pub(super) fn begin_receive(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        bytes_dealt: u64,
    ) -> Option<Member> {
        let operation = cx.operations.get_mut(op)?;
        let (member, links) = (operation.member(op), operation.links);
        self.eager.waits_no_more(operation.place);
        let matched = OpState::Matched { bytes_left: member.bytes, bytes_dealt };
        let before = std::mem::replace(&mut operation.state, matched);
        self.leave_list(cx, op, member.transfer, before, links);
        self.waiting_receives -= 1;
        Some(member)
    }

    /// Returns a plan of which chunks are to be moved. A message of 0 bytes has none and is done.
    pub(super) fn carry_out(
        &mut self,
        cx: &mut Conversation,
        plan: ChunkPlan,
    ) -> Option<ChunkPlan> {
        match (&plan.members, plan.bytes) {
            (Members::One(member), 0) => {
                self.complete(cx, member.op, Outcome::Done);
                None
            }
            _ => Some(plan),
        }
    }

    /// An operation has ended.
    pub(super) fn complete(&mut self, cx: &mut Conversation, op: OpKey, outcome: Outcome) {
        let Some(operation) = cx.operations.remove(op) else { return };
        self.leave_list(cx, op, operation.posted.transfer, operation.state, operation.links);
        match operation.state {
            OpState::SendWaits => self.matcher.withdraw_send(operation.place),
            OpState::Announced | OpState::Cancelling(_) => {
                self.eager.waits_no_more(operation.place);
                self.waiting_receives -= 1;
            }
            OpState::Unannounced => {
                self.announcing.unannounced.remove(operation.place);
                self.waiting_receives -= 1;
            }
            OpState::Asked | OpState::Matched { .. } => {}
        }
        self.completed(cx, &operation, outcome);
    }

    /// An operation, which is in no list any more, has ended.
    #[inline]
    pub(super) fn completed(
        &mut self,
        cx: &mut Conversation,
        operation: &PostedOperation,
        outcome: Outcome,
    ) {
        let NewOperation { transfer, direction, tag, span, .. } = operation.posted;
        let registration = span.registration;
        let completion = Completion { transfer, registration, direction, tag, outcome };
        cx.actions.push_back(Action::Complete(completion));
    }

    /// An operation that was as `before` has found its counterpart, or has ended: it leaves the
    /// list in which it stood between `links`.
    #[inline]
    pub(super) fn leave_list(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        transfer: TransferKey,
        before: OpState,
        links: Links,
    ) {
        match before {
            OpState::SendWaits | OpState::Unannounced | OpState::Announced => {
                self.backlogs.end_to_wait((transfer, op), links, false, &mut cx.operations);
            }
            OpState::Cancelling(_) => {
                self.cancelling.remove(links, &mut cx.operations);
                self.backlogs.withdrawn_ended(transfer);
            }
            OpState::Asked | OpState::Matched { .. } => {}
        }
    }

    /// Bytes of a message were sent, or received and unpacked.
    #[inline]
    pub(super) fn bytes_done(&mut self, cx: &mut Conversation, op: OpKey, bytes: u64) {
        let Some(operation) = cx.operations.get_mut(op) else { return };
        let OpState::Matched { bytes_left, .. } = &mut operation.state else { return };
        *bytes_left = bytes_left.saturating_sub(bytes);
        let NewOperation { direction, bytes: total, .. } = operation.posted;
        let is_over = *bytes_left == 0;
        if direction == Direction::Send {
            cx.schedule.sent(total, bytes);
        }
        if is_over && let Some(operation) = cx.operations.remove(op) {
            self.completed(cx, &operation, Outcome::Done);
        }
    }
}
