//! Accounts of reads and writes, at whichever end: what is scheduled, what has moved, how they end,
//! and what becomes free then. Pure.

use super::super::action::{Action, Outcome};
use super::super::conversation::Conversation;
use super::super::message::{Access, Role, Serving, State};
use super::OneSided;
use super::local_lists::ListUse;
use crate::exports::refusal::{Refusal, Refused};
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, MessageId};
use crate::types::memory::OperationKind;
use crate::types::{Direction, OpKey};

impl OneSided {
    /// Has the peer learn the lists of requests that wait, while there is room for them.
    pub(super) fn begin_waiting_lists(&mut self, cx: &mut Conversation) {
        while let Some(op) = self.unlisted.front().copied() {
            if let Some(request) = cx.request(op) {
                let used = self.local_lists.begin_use(&request.list, op);
                if used == ListUse::NoRoom {
                    return;
                }
                request.uses_list = true;
                if let ListUse::Known(_) = used {
                    self.ready(cx, op);
                }
            }
            self.unlisted.pop_front();
        }
    }

    /// Marks a request whose list the peer knows as ready.
    pub(super) fn ready(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(request) = cx.request(op) else { return };
        match (request.list.kind, request.note.is_some()) {
            (OperationKind::Read, _) => self.reads.push_back(op),
            (OperationKind::Write, false) => self.writes.push_back(op),
            (OperationKind::Write, true) => self.noted_writes.push_back(op),
        }
    }

    /// Notes that the target schedules no more of a read of ours.
    pub(super) fn all_scheduled(&mut self, cx: &mut Conversation, op: OpKey) {
        if let Some(key) = self.unscheduled.remove(&op.to_wire()) {
            self.local_lists.end_use(key);
            self.begin_waiting_lists(cx);
        }
    }

    /// Notes that `bytes` more bytes of a message, which are of `pieces` pieces, are scheduled: by
    /// this end, or by the peer.
    pub(in super::super) fn bytes_scheduled(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        (bytes, pieces): (u64, usize),
    ) {
        let Some(message) = cx.operations.get(op) else { return };
        let Some(access) = &message.access else { return };
        let is_sent = message.posted.direction == Direction::Send;
        let is_last = message.left() == 0;
        // Work that the peer makes this end do.
        if message.serves().is_some() || (message.is_on_link() && !is_sent) {
            cx.work.spend(pieces as u64);
        }
        match &access.role {
            Role::Target(serving) if is_sent => {
                self.reads_on_link -= if message.is_on_link() { bytes } else { 0 };
                if is_last {
                    self.read_is_scheduled(serving.list);
                }
            }
            Role::Initiator(_) if !is_sent && is_last => self.all_scheduled(cx, op),
            _ => {}
        }
    }

    /// Looks whether a message is over, or its memory free: bytes of it have moved, or no more are
    /// scheduled.
    pub(in super::super) fn check_moved(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(message) = cx.operations.get_mut(op) else { return };
        let (is_whole, is_at_rest) = (message.moved == message.posted.bytes, message.is_at_rest());
        let is_sent = message.posted.direction == Direction::Send;
        match message.state {
            State::Moving if is_whole && is_sent && message.request().is_some() => {
                message.state = State::AwaitsAnswer;
                self.end_abandoned(cx, op);
            }
            State::Moving | State::Answered | State::Ending { .. } if is_whole => {
                self.finish(cx, op, Outcome::Done);
            }
            State::Ending { why, is_agreed: true } if is_at_rest => {
                self.finish(cx, op, why.into());
            }
            State::Ending { .. } if is_at_rest => self.end_abandoned(cx, op),
            _ => {}
        }
    }

    /// Ends a write that was abandoned, if its memory is free. Its name and its list stay in use
    /// until the answer.
    pub(super) fn end_abandoned(&mut self, cx: &mut Conversation, op: OpKey) {
        let is_free = |op| cx.operations.get(op).is_some_and(|it| !it.uses_memory());
        if is_free(op) && cx.request(op).is_some_and(|request| request.is_abandoned) {
            self.finish_request(cx, op, None.into());
        }
    }

    fn finish(&mut self, cx: &mut Conversation, op: OpKey, outcome: Outcome) {
        match cx.request(op) {
            Some(_) => self.finish_request(cx, op, outcome),
            None => self.finish_serving(cx, op, outcome),
        }
    }

    /// Ends a request.
    pub(super) fn finish_request(&mut self, cx: &mut Conversation, op: OpKey, outcome: Outcome) {
        let Some(message) = cx.operations.remove(op) else { return };
        let Some(Access { role: Role::Initiator(request), .. }) = message.access else {
            return;
        };
        let transfer = message.posted.transfer;
        self.of_transfer.remove(&transfer);
        if message.state == State::RequestQueued && request.uses_list {
            self.local_lists.end_use(request.list.key);
            self.begin_waiting_lists(cx);
        }
        if outcome == Outcome::Done
            && request.list.kind == OperationKind::Read
            && let Some(note) = request.note
        {
            self.notes.push(note);
        }
        let list = request.list;
        let is_other_later = match outcome {
            Outcome::Refused { why: Refusal::NoMemory, .. } => true,
            Outcome::Refused { why: Refusal::UnknownKey | Refusal::Revoked, .. } => {
                list.may_open_again()
            }
            _ => false,
        };
        if is_other_later {
            // The peer has looked at its keys once. With the next post it looks again.
            self.local_lists.drop_list(list.key);
        }
        cx.completed(&message.posted, outcome, Some(list));
    }

    /// Returns whether no section of a message is to be scheduled now, because it is a read of the
    /// peer, which takes no chunks, or has had its share of this round.
    pub(in super::super) fn holds_section(&self, cx: &mut Conversation, op: OpKey) -> bool {
        let is_served = cx.operations.get(op).is_some_and(|it| it.serves().is_some());
        if !is_served || self.unsent_reads() >= self.terms.asked {
            return is_served;
        }
        cx.work.holds_sections |= cx.work.is_spent();
        cx.work.is_spent()
    }

    /// Returns whether an operation is a request of the peer, which has had its share of this
    /// round.
    pub(super) fn is_round_spent_on(&self, cx: &Conversation, op: OpKey) -> bool {
        let is_served = cx.operations.get(op).is_some_and(|it| it.serves().is_some());
        is_served && cx.work.is_spent()
    }

    /// Ends a request of the peer.
    fn finish_serving(&mut self, cx: &mut Conversation, op: OpKey, outcome: Outcome) {
        let Some(message) = cx.operations.remove(op) else { return };
        let Some(Access { role: Role::Target(serving), .. }) = message.access else {
            return;
        };
        let name = message.name;
        let Serving { list, uses, note } = serving;
        self.served.remove(&name);
        let is_write = message.posted.direction == Direction::Receive;
        let kind = if is_write { OperationKind::Write } else { OperationKind::Read };
        if is_write {
            self.served_writes -= 1;
            self.remote_lists.end_use(list);
        }
        let (is_whole, refused) = (outcome == Outcome::Done, outcome.refused());
        self.stats.served(kind, message.cursor.scheduled, refused.map(|refused| refused.why));
        cx.actions.push_back(Action::Served(uses));
        if let Some((number, bytes)) = note {
            cx.actions.push_back(Action::Note { number, is_published: is_whole });
            match is_whole {
                true => self.stats.notifications_received += 1,
                false => self.drop_note(Some(bytes)),
            }
        }
        if is_write {
            self.answer(cx, name, refused);
        }
    }

    /// Notes that no more of a read is scheduled, and that nothing of its list is needed.
    pub(super) fn read_is_scheduled(&mut self, list: u32) {
        self.unscheduled_reads -= 1;
        self.remote_lists.end_use(list);
    }

    /// Drops the note of a write that is refused: its room is free again.
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
