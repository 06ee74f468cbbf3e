//! Initiator of requests: the course of a request, from the post to its end.

use std::sync::Arc;

use super::super::action::{Outcome, Withdrawal};
use super::super::conversation::Conversation;
use super::super::message::{Access, Lane, Message, Request, Role, State};
use super::super::violation::Violation;
use super::OneSided;
use super::{NewRequest, Unanswered};
use crate::exports::refusal::{Refusal, Refused};
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, MessageId};
use crate::types::{Direction, OpKey, PreparedKey, TransferKey};

impl OneSided {
    /// Posts an operation of the program, which [`check_posts`](Self::check_posts) allows; its
    /// transfer has no other under way. The operation ends with exactly one [`Action::Complete`],
    /// or is handed out by [`take_operations`](Self::take_operations).
    pub(in super::super) fn handle_request(
        &mut self,
        cx: &mut Conversation,
        request: NewRequest,
    ) -> OpKey {
        let NewRequest { transfer, list, note } = request;
        let (direction, pieces) = (list.direction(), Arc::clone(&list.pieces));
        let request = Request { list, note, uses_list: false, is_abandoned: false };
        let access = Access::new(pieces, Role::Initiator(request));
        let message = Message::of_access((transfer, direction), State::RequestQueued, access);
        let op = cx.operations.insert(message);
        self.of_transfer.insert(transfer, op);
        self.unlisted.push_back(op);
        self.begin_waiting_lists(cx);
        op
    }

    /// Lets the peer forget the list of an operation that the program has let go of for good.
    pub(in super::super) fn drop_list(&mut self, list: PreparedKey) {
        self.local_lists.drop_list(list);
    }

    /// Sends a notification of the program by itself. Returns whether there is room for it.
    pub(in super::super) fn handle_note(&mut self, note: Arc<[u8]>) -> bool {
        let has_room = self.notes.has_room(note.len());
        if has_room {
            self.notes.push(note);
        }
        has_room
    }

    /// Handles a grant: the target takes the bytes of a write.
    pub(in super::super) fn handle_write_ready(
        &mut self,
        cx: &mut Conversation,
        name: u64,
        recv: u64,
        cut: bool,
    ) {
        if !self.unanswered.contains_key(&name) {
            return cx.broken(Violation::UnknownRequest { op: name });
        }
        let op = OpKey::from_wire(name);
        let Some(message) = cx.operations.get_mut(op) else {
            // The write was given up meanwhile.
            return self.send_write_stopped(cx, name, Refusal::Cancelled);
        };
        if message.state != State::RequestSent {
            return cx.broken(Violation::UnknownRequest { op: name });
        }
        message.name = recv;
        if let Some(access) = &mut message.access {
            access.cuts_pairs = cut;
        }
        self.begin_to_send(cx, op, Lane::Channels);
    }

    /// Handles the target's answer to a write.
    pub(in super::super) fn handle_answer(
        &mut self,
        cx: &mut Conversation,
        name: u64,
        refused: Option<Refused>,
    ) {
        let Some(Unanswered { list, on_link }) = self.unanswered.remove(&name) else {
            return cx.broken(Violation::UnknownRequest { op: name });
        };
        self.writes_on_link -= on_link;
        self.local_lists.end_use(list);
        self.begin_waiting_lists(cx);
        let op = OpKey::from_wire(name);
        let Some(message) = cx.operations.get_mut(op) else { return };
        match (message.state, refused) {
            (State::Moving, Some(refused)) if message.is_on_link() => {
                self.send_write_stopped(cx, name, refused.why);
                self.finish_request(cx, op, refused.into());
            }
            (State::Moving, None) if message.left() == 0 => message.state = State::Answered,
            (State::AwaitsAnswer, None) => self.finish_request(cx, op, Outcome::Done),
            (State::RequestSent | State::AwaitsAnswer, Some(refused)) => {
                self.finish_request(cx, op, refused.into())
            }
            (State::Ending { why, .. }, Some(_)) => {
                message.state = State::Ending { why, is_agreed: true };
                self.check_moved(cx, op);
            }
            _ => cx.broken(Violation::UnknownRequest { op: name }),
        }
    }

    /// Stops a write of ours: the receiver of its bytes wants no more.
    pub(in super::super) fn handle_write_halted(
        &mut self,
        cx: &mut Conversation,
        name: u64,
        why: Refusal,
    ) {
        let op = OpKey::from_wire(name);
        let Some(message) = cx.own_request(op) else { return };
        let is_write = message.posted.direction == Direction::Send && !message.is_on_link();
        match message.state {
            State::Moving if is_write => {
                self.stop_sending(cx, op, Some(Refused { why, range: 0 }));
            }
            // The write is sent, or given up: the answer says what has become of it.
            State::AwaitsAnswer | State::Ending { .. } if is_write => {}
            _ => cx.broken(Violation::UnknownRequest { op: name }),
        }
    }

    /// Deals no more of a write, with the knowledge of the target. If all is scheduled, it is too
    /// late.
    fn stop_sending(&mut self, cx: &mut Conversation, op: OpKey, why: Option<Refused>) {
        let Some(message) = cx.operations.get_mut(op) else { return };
        if message.left() == 0 {
            return;
        }
        message.state = State::Ending { why, is_agreed: false };
        let said = why.map_or(Refusal::Cancelled, |refused| refused.why);
        self.send_write_stopped(cx, op.to_wire(), said);
        self.check_moved(cx, op);
    }

    fn send_write_stopped(&mut self, cx: &mut Conversation, name: u64, why: Refusal) {
        let how = Ended::Stopped(Refused { why, range: 0 });
        cx.send(Frame::End { message: MessageId::Write(name), how });
    }

    /// Ends a read of ours: the target sends no more bytes of it.
    pub(in super::super) fn handle_read_stopped(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        refused: Refused,
    ) {
        let Some(message) = cx.own_read(op).filter(|message| message.left() > 0) else {
            return cx.broken(Violation::UnknownRequest { op: op.to_wire() });
        };
        let why = match message.state {
            State::Ending { why, .. } => why,
            _ => Some(refused),
        };
        message.state = State::Ending { why, is_agreed: true };
        self.all_scheduled(cx, op);
        self.check_moved(cx, op);
    }

    /// Gives up the operation of a transfer for the program, where possible. Returns whether the
    /// transfer has one.
    pub(in super::super) fn handle_cancel(
        &mut self,
        cx: &mut Conversation,
        transfer: TransferKey,
    ) -> bool {
        let op = self.of_transfer.get(&transfer).copied();
        if let Some(op) = op {
            self.cancel_request(cx, op);
        }
        op.is_some()
    }

    /// Gives up an operation for the program, where possible.
    fn cancel_request(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(message) = cx.operations.get_mut(op) else { return };
        match (message.state, message.posted.direction) {
            (State::RequestQueued | State::RequestSent, _) => {
                self.finish_request(cx, op, None.into())
            }
            (State::Moving, Direction::Send) => self.stop_sending(cx, op, None),
            (State::Moving, Direction::Receive) if message.left() > 0 => {
                message.state = State::Ending { why: None, is_agreed: false };
                let (message, why) = (MessageId::Read(op.to_wire()), Refusal::Cancelled);
                cx.send(Frame::Cancel { message, why });
            }
            _ => {}
        }
    }

    /// Abandons a request that the program has given up and has no more time for: the request does
    /// not wait for what the peer may never say.
    pub(in super::super) fn abandon_request(
        &mut self,
        cx: &mut Conversation,
        transfer: TransferKey,
    ) {
        let Some(op) = self.of_transfer.get(&transfer).copied() else { return };
        if let Some(request) = cx.request(op) {
            request.is_abandoned = true;
            self.end_abandoned(cx, op);
        }
    }

    /// Gives up requests because an end leaves: this end does not ask for what the peer has not
    /// heard of. A peer that has said goodbye does not answer what it heard later either.
    pub(in super::super) fn sweep_requests(&mut self, cx: &mut Conversation, why: Withdrawal) {
        let has_peer_left = why == Withdrawal::PeerLeft;
        let (mut unheard, mut broken) = (Vec::new(), None);
        for op in self.of_transfer.values().copied() {
            let Some(message) = cx.operations.get(op) else { continue };
            let is_read = message.posted.direction == Direction::Receive;
            let (is_on_link, scheduled) = (message.is_on_link(), message.cursor.scheduled);
            match message.state {
                State::RequestQueued => unheard.push((op, Outcome::Withdrawn(why))),
                _ if !has_peer_left => {}
                State::RequestSent | State::AwaitsAnswer => {
                    unheard.push((op, Outcome::Withdrawn(why)))
                }
                // The peer has finished what it had begun, and this end comes after it.
                State::Answered | State::Ending { is_agreed: true, .. } => {}
                _ if is_read && message.left() == 0 => {}
                _ if is_read && scheduled == 0 => unheard.push((op, Outcome::Withdrawn(why))),
                // Its chunks went where no operation took them.
                State::Moving if !is_read && is_on_link => {
                    unheard.push((op, Outcome::Withdrawn(why)));
                }
                State::Ending { why, .. } if !is_read && is_on_link => {
                    unheard.push((op, why.into()))
                }
                _ => broken = Some(op),
            }
        }
        unheard.sort_unstable_by_key(|(op, _)| *op);
        for (op, outcome) in unheard {
            self.finish_request(cx, op, outcome);
        }
        if let Some(op) = broken {
            cx.broken(Violation::UnknownRequest { op: op.to_wire() });
        }
    }
}
