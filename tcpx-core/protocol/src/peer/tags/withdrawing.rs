//! Withdrawals: how operations end that find no counterpart, because the program withdraws them or
//! an end leaves. Pure.
//!
//! There may be millions, so they end in slices: the first in the call that asks for it, the others
//! one in each round.

use super::super::action::{Outcome, Withdrawal};
use super::super::conversation::Conversation;
use super::super::lifecycle::stage::Stage;
use super::super::message::State;
use super::super::violation::Violation;
use super::Tags;
use super::backlogs::link_behind;
use crate::exports::refusal::Refusal;
use crate::frames::frame::Frame;
use crate::frames::messages::MessageId;
use crate::types::{Direction, OpKey, TransferKey};

/// Operations of a transfer that have no counterpart, for the text of a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Number of operations.
    pub count: usize,
    /// The oldest of them that is not withdrawn, by its tag.
    pub oldest: Option<(Direction, i64)>,
}

impl Tags {
    /// Withdraws, for the program, the operations of a transfer that have no counterpart by now. A
    /// receive ends once the peer agrees. Operations that are posted later are not affected.
    pub(in super::super) fn handle_cancel(&mut self, cx: &mut Conversation, transfer: TransferKey) {
        let Some(backlog) = self.backlogs.get_mut(transfer) else { return };
        if !backlog.withdraw() {
            return;
        }
        if !std::mem::replace(&mut backlog.is_queued, true) {
            // The newest first: a small transfer does not wait for a large one.
            self.cancelled.push_front(transfer);
        }
        self.withdraw_slice(cx);
    }

    /// Returns whether rounds that follow have more to withdraw.
    pub(in super::super) fn is_withdrawing(&self) -> bool {
        let is_sweeping = self.sweep.is_some() && self.backlogs.any_waiting().is_some();
        !self.cancelled.is_empty() || is_sweeping
    }

    /// Returns the operations of a transfer that have no counterpart.
    pub(in super::super) fn unmatched(
        &self,
        cx: &Conversation,
        transfer: TransferKey,
    ) -> Unmatched {
        let Some(backlog) = self.backlogs.get(transfer) else { return Unmatched::default() };
        let oldest = backlog.waiting.first().and_then(|op| cx.operations.get(op));
        Unmatched {
            count: backlog.unmatched,
            oldest: oldest.map(|oldest| (oldest.posted.direction, oldest.posted.tag)),
        }
    }

    /// Ends for this reason everything that waits from now on, unless the program has withdrawn it
    /// before.
    pub(in super::super) fn sweep(&mut self, cx: &mut Conversation, why: Withdrawal) {
        self.sweep.get_or_insert(why);
        self.withdraw_slice(cx);
    }

    /// Begins a round: withdraws a slice of the operations that are to be withdrawn. Returns
    /// whether there was any.
    pub(in super::super) fn withdraw_more(&mut self, cx: &mut Conversation) -> bool {
        let is_idle = self.cancelled.is_empty() && self.sweep.is_none();
        !is_idle && self.withdraw_slice(cx)
    }

    /// Returns whether there was anything to withdraw.
    pub(in super::super) fn withdraw_slice(&mut self, cx: &mut Conversation) -> bool {
        if let Stage::Over = cx.life.stage {
            return false;
        }
        for done in 0..self.slice {
            let Some((op, why)) = self.next_withdrawn(cx) else { return done > 0 };
            self.withdraw(cx, op, why);
        }
        true
    }

    fn next_withdrawn(&mut self, cx: &Conversation) -> Option<(OpKey, Withdrawal)> {
        while let Some(transfer) = self.cancelled.front() {
            let backlog = self.backlogs.get_mut(*transfer);
            if let Some(op) = backlog.as_ref().and_then(|backlog| backlog.first_withdrawn()) {
                return Some((op, Withdrawal::Cancelled));
            }
            if let Some(backlog) = backlog {
                backlog.is_queued = false;
            }
            self.cancelled.pop_front();
        }
        let why = self.sweep?;
        if let Some(op) = self.backlogs.any_waiting().and_then(|backlog| backlog.waiting.first()) {
            return Some((op, why));
        }
        // A cancel that crossed the peer's goodbye needs no other answer.
        let op = self.cancelling.first().filter(|_| cx.life.peer_posts_nothing())?;
        match cx.operations.get(op)?.state {
            State::Cancelling(why) => Some((op, why)),
            _ => None,
        }
    }

    /// Ends an operation without a counterpart: a receive once the peer agrees.
    fn withdraw(&mut self, cx: &mut Conversation, op: OpKey, why: Withdrawal) {
        let is_agreed = cx.life.peer_posts_nothing();
        let Some(operation) = cx.operations.get_mut(op) else { return };
        if operation.state != State::ReadySent || is_agreed {
            return self.complete(cx, op, Outcome::Withdrawn(why));
        }
        operation.state = State::Cancelling(why);
        let (transfer, links) = (operation.posted.transfer, operation.links);
        self.backlogs.end_to_wait((transfer, op), links, true, &mut cx.operations);
        let links = self.cancelling.push(op);
        link_behind(links, op, &mut cx.operations);
        if let Some(operation) = cx.operations.get_mut(op) {
            operation.links = links;
        }
        let message = MessageId::Receive(op.to_wire());
        cx.send(Frame::Cancel { message, why: Refusal::Cancelled });
    }

    /// Handles the peer's consent to a withdrawal, perhaps to one that this end has not asked for.
    pub(in super::super) fn handle_cancelled(
        &mut self,
        cx: &mut Conversation,
        recv: u64,
    ) -> Result<(), Violation> {
        let unknown = Violation::UnknownReceive { recv };
        let (op, _) = self.own_receive(cx, recv).ok_or(unknown)?;
        let why = match cx.operations[op].state {
            State::Cancelling(why) => why,
            _ => Withdrawal::Cancelled,
        };
        self.complete(cx, op, Outcome::Withdrawn(why));
        Ok(())
    }
}
