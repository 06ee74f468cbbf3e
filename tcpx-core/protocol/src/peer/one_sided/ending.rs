//! Ends of operations with a list, at whichever end, and what becomes free with them. Pure.

use super::super::action::{Action, Outcome};
use super::super::conversation::Conversation;
use super::super::operation::{OpState, Withdrawal};
use super::telling::Use;
use super::{Asking, Gaveup, Listed, OneSided, Role, Serving, Step};
use crate::exports::refusal::{Refusal, Refused};
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, MessageId};
use crate::types::memory::OperationKind;
use crate::types::{Direction, OpKey, TransferKey};

/// What the end of an operation comes to, once what was dealt has moved.
enum Next {
    Nothing,
    /// Its memory is not used any more.
    Free,
    Await,
    Finish(Outcome),
    Serve,
}

impl From<Refused> for Outcome {
    fn from(refused: Refused) -> Self {
        Self::Refused { why: refused.why, range: refused.range }
    }
}

impl From<Gaveup> for Outcome {
    fn from(why: Gaveup) -> Self {
        match why {
            Gaveup::Cancelled => Self::Withdrawn(Withdrawal::Cancelled),
            Gaveup::Refused(refused) => refused.into(),
        }
    }
}

impl OneSided {
    /// A request of ours, by its name.
    pub(super) fn asking(&mut self, op: OpKey) -> Option<&mut Asking> {
        match &mut self.listed.get_mut(op)?.role {
            Role::Asks(asking) => Some(asking),
            Role::Serves(_) => None,
        }
    }

    pub(super) fn is_waiting(&mut self, op: OpKey) -> bool {
        self.asking(op).is_some_and(|asking| asking.step == Step::Waiting)
    }

    /// Has lists told of requests that wait, as far as there is room for them.
    pub(super) fn list_waiting(&mut self) {
        while let Some(op) = self.unlisted.front().copied() {
            if let Some(Listed { role: Role::Asks(asking), .. }) = self.listed.get_mut(op) {
                let used = self.telling.begin_use(&asking.list, op);
                if used == Use::NoRoom {
                    return;
                }
                asking.uses_list = true;
                if let Use::Known(_) = used {
                    self.ready(op);
                }
            }
            self.unlisted.pop_front();
        }
    }

    /// The peer knows the list of a request.
    pub(super) fn ready(&mut self, op: OpKey) {
        let Some(asking) = self.asking(op) else { return };
        let (kind, has_note) = (asking.list.kind, asking.note.is_some());
        match (kind, has_note) {
            (OperationKind::Read, _) => self.reads.push_back(op),
            (OperationKind::Write, false) => self.writes.push_back(op),
            (OperationKind::Write, true) => self.noted_writes.push_back(op),
        }
    }

    /// The target deals no more of a read of ours.
    pub(super) fn all_dealt(&mut self, op: OpKey) {
        if let Some(key) = self.undealt.remove(&op.to_wire()) {
            self.telling.end_use(key);
            self.list_waiting();
        }
    }

    /// Ends a write that was abandoned, if its memory is free. Its name and its list stay in use
    /// until the answer.
    pub(super) fn end_abandoned(&mut self, cx: &mut Conversation, op: OpKey) {
        let is_free = cx.operations.get(op).is_some_and(|it| it.state == OpState::Asked);
        if is_free && self.asking(op).is_some_and(|asking| asking.is_abandoned) {
            self.finish_request(cx, op, Outcome::Withdrawn(Withdrawal::Cancelled));
        }
    }

    /// A request has ended.
    pub(super) fn finish_request(&mut self, cx: &mut Conversation, op: OpKey, outcome: Outcome) {
        let Some(Listed { role: Role::Asks(asking), .. }) = self.listed.remove(op) else {
            return;
        };
        let Some(operation) = cx.operations.remove(op) else { return };
        let transfer: TransferKey = operation.posted.transfer;
        self.of_transfer.remove(&transfer);
        if asking.step == Step::Waiting && asking.uses_list {
            self.telling.end_use(asking.list.key);
            self.list_waiting();
        }
        if outcome == Outcome::Done
            && asking.list.kind == OperationKind::Read
            && let Some(note) = asking.note
        {
            self.notes.push(note);
        }
        let list = asking.list;
        let is_other_later = match outcome {
            Outcome::Refused { why: Refusal::NoMemory, .. } => true,
            Outcome::Refused { why: Refusal::UnknownKey | Refusal::Revoked, .. } => {
                list.may_open_again()
            }
            _ => false,
        };
        if is_other_later {
            // The peer has looked at its keys once. With the next post it looks again.
            self.telling.drop_list(list.key);
        }
        cx.actions.push_back(Action::CompleteListed { transfer, list, outcome });
    }

    /// Whether the bytes of an operation that waits to be dealt are still wanted.
    pub(in super::super) fn is_dealt(&self, op: OpKey) -> bool {
        self.listed.get(op).is_some_and(|listed| match &listed.role {
            Role::Asks(asking) => asking.step == Step::Moving,
            Role::Serves(serving) => serving.stopped.is_none(),
        })
    }

    /// Whether an operation is a request of the peer, which has had its share of this round.
    pub(super) fn is_round_spent_on(&self, cx: &Conversation, op: OpKey) -> bool {
        let listed = self.listed.get(op);
        let is_served = listed.is_some_and(|listed| matches!(listed.role, Role::Serves(_)));
        is_served && cx.work.is_spent()
    }

    /// So many bytes of an operation with a list have moved, or no more are dealt: looks whether it
    /// is over, or its memory free.
    pub(in super::super) fn listed_moved(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(operation) = cx.operations.get(op) else { return };
        let OpState::Matched { bytes_left: left, .. } = operation.state else {
            return self.settle_stopping(cx, op);
        };
        let Some(listed) = self.listed.get(op) else { return };
        let moved = listed.pieces.bytes - left;
        let next = next_step(listed, left, moved == listed.cursor.dealt);
        self.carry_on(cx, op, next);
    }

    /// A write was given up whose memory is free: it ends with its answer.
    fn settle_stopping(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(Listed { role: Role::Asks(asking), .. }) = self.listed.get(op) else {
            return;
        };
        if let Step::Stopping { why, is_answered: true } = asking.step {
            self.finish_request(cx, op, why.into());
        }
    }

    fn carry_on(&mut self, cx: &mut Conversation, op: OpKey, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Free | Next::Await => {
                if let Some(operation) = cx.operations.get_mut(op) {
                    operation.state = OpState::Asked;
                }
                if let (Next::Await, Some(Listed { role: Role::Asks(asking), .. })) =
                    (next, self.listed.get_mut(op))
                {
                    asking.step = Step::Awaiting;
                }
                self.end_abandoned(cx, op);
            }
            Next::Finish(outcome) => self.finish_request(cx, op, outcome),
            Next::Serve => self.finish_serving(cx, op),
        }
    }

    /// A request of the peer is over.
    pub(super) fn finish_serving(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(Listed { pieces, cursor, role: Role::Serves(serving), .. }) =
            self.listed.remove(op)
        else {
            return;
        };
        let Some(operation) = cx.operations.remove(op) else { return };
        let Serving { op: name, list, uses, note, stopped, .. } = serving;
        self.served.remove(&name);
        let is_write = operation.posted.direction == Direction::Receive;
        let is_whole = cursor.dealt == pieces.bytes;
        let kind = if is_write { OperationKind::Write } else { OperationKind::Read };
        if is_write {
            self.served_writes -= 1;
            self.told.end_use(list);
        }
        let why = stopped.filter(|_| !is_whole).map(|refused| refused.why);
        self.stats.served(kind, cursor.dealt, why);
        cx.actions.push_back(Action::Served(uses));
        if let Some((number, bytes)) = note {
            cx.actions.push_back(Action::Note { number, is_published: is_whole });
            match is_whole {
                true => self.stats.notifications_received += 1,
                false => self.drop_note(Some(bytes)),
            }
        }
        if is_write {
            self.answer(cx, name, stopped.filter(|_| !is_whole));
        }
    }

    /// No more is dealt of a read, and nothing of its list is needed.
    pub(super) fn read_is_dealt(&mut self, list: u32) {
        self.undealt_reads -= 1;
        self.told.end_use(list);
    }

    /// The note of a write that is refused is nobody's: its room is free again.
    pub(super) fn drop_note(&mut self, note: Option<u32>) {
        if let Some(bytes) = note {
            self.notes.drop_note(bytes as usize);
        }
    }

    pub(super) fn answer(&mut self, cx: &mut Conversation, op: u64, refused: Option<Refused>) {
        let how = refused.map_or(Ended::Done, Ended::Refused);
        cx.send(Frame::End { message: MessageId::Write(op), how });
    }
}

/// `is_at_rest`: all that was dealt has moved.
fn next_step(listed: &Listed, left: u64, is_at_rest: bool) -> Next {
    match &listed.role {
        Role::Serves(serving) => {
            let is_over = left == 0 || (serving.stopped.is_some() && is_at_rest);
            if is_over { Next::Serve } else { Next::Nothing }
        }
        Role::Asks(asking) => match (asking.step, asking.list.kind) {
            (Step::Moving, OperationKind::Write) if left == 0 => Next::Await,
            (Step::Answered, _) | (Step::Moving | Step::Halting { .. }, OperationKind::Read)
                if left == 0 =>
            {
                Next::Finish(Outcome::Done)
            }
            (Step::Halting { why, is_stopped: true }, _) if is_at_rest => Next::Finish(why.into()),
            (Step::Stopping { why, is_answered: true }, _) if is_at_rest => {
                Next::Finish(why.into())
            }
            (Step::Stopping { .. }, _) if is_at_rest => Next::Free,
            _ => Next::Nothing,
        },
    }
}
