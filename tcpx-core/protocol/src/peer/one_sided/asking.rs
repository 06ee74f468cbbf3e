//! The initiator: what becomes of a request, from the post to its end.

use std::sync::Arc;

use super::super::action::{Outcome, Violation};
use super::super::conversation::Conversation;
use super::super::operation::{Links, NewOperation, OpState, PostedOperation, Withdrawal};
use super::super::tags::tag_queues::Place;
use super::OneSided;
use super::{Asking, Gaveup, Listed, NewRequest, Role, Step, Unanswered};
use crate::exports::refusal::{Refusal, Refused};
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, MessageId};
use crate::plans::piece_cursor::PieceCursor;
use crate::types::memory::OperationKind;
use crate::types::{OpKey, PreparedKey, TransferKey};

impl OneSided {
    /// The program posts an operation, which [`check_posts`](Self::check_posts) allows; its
    /// transfer has no other under way. It ends with exactly one
    /// [`Action::CompleteListed`], or is handed out by [`take_listed`](Self::take_listed).
    pub(in super::super) fn handle_request(
        &mut self,
        cx: &mut Conversation,
        request: NewRequest,
    ) -> OpKey {
        let NewRequest { transfer, list, note } = request;
        let direction = list.direction();
        let pieces = Arc::clone(&list.pieces);
        let posted =
            NewOperation { transfer, direction, tag: 0, span: pieces.start(), bytes: pieces.bytes };
        let (links, place) = (Links::default(), Place::default());
        let state = OpState::Asked;
        let op = cx.operations.insert(PostedOperation { posted, state, links, place });
        let asking =
            Asking { list, note, step: Step::Waiting, uses_list: false, is_abandoned: false };
        let role = Role::Asks(asking);
        let cursor = PieceCursor::default();
        self.listed.insert(
            op,
            Listed { pieces, cursor, cuts_pairs: false, is_on_link: false, recv: 0, role },
        );
        self.of_transfer.insert(transfer, op);
        self.unlisted.push_back(op);
        self.list_waiting();
        op
    }

    /// An operation's program has let go of it for good: the peer may forget its list.
    pub(in super::super) fn drop_list(&mut self, list: PreparedKey) {
        self.telling.drop_list(list);
    }

    /// The program sends a notification by itself. Returns whether there is room for it.
    pub(in super::super) fn handle_note(&mut self, note: Arc<[u8]>) -> bool {
        let has_room = self.notes.has_room(note.len());
        if has_room {
            self.notes.push(note);
        }
        has_room
    }

    /// The target takes the bytes of a write.
    pub(in super::super) fn handle_grant(
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
        let Some(listed) = self.listed.get_mut(op) else {
            // It was given up meanwhile.
            return self.say_stopped_write(cx, name, Refusal::Cancelled);
        };
        let Role::Asks(asking @ Asking { step: Step::Asked, .. }) = &mut listed.role else {
            return cx.broken(Violation::UnknownRequest { op: name });
        };
        asking.step = Step::Moving;
        (listed.recv, listed.cuts_pairs) = (recv, cut);
        self.begin_to_deal(cx, op);
    }

    /// The target has answered a write.
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
        self.telling.end_use(list);
        self.list_waiting();
        let op = OpKey::from_wire(name);
        let Some(listed) = self.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let is_on_link = listed.is_on_link;
        let Role::Asks(asking) = &mut listed.role else { return };
        match (asking.step, refused) {
            (Step::Moving, Some(refused)) if is_on_link => {
                self.say_stopped_write(cx, name, refused.why);
                self.finish_request(cx, op, refused.into());
            }
            (Step::Moving, None) if is_dealt => asking.step = Step::Answered,
            (Step::Awaiting, None) => self.finish_request(cx, op, Outcome::Done),
            (Step::Asked | Step::Awaiting, Some(refused)) => {
                self.finish_request(cx, op, refused.into())
            }
            (Step::Stopping { why, .. }, Some(_)) => {
                asking.step = Step::Stopping { why, is_answered: true };
                self.listed_moved(cx, op);
            }
            _ => cx.broken(Violation::UnknownRequest { op: name }),
        }
    }

    /// Whoever receives the bytes of a write of ours wants no more.
    pub(in super::super) fn handle_write_halted(
        &mut self,
        cx: &mut Conversation,
        name: u64,
        why: Refusal,
    ) {
        let op = OpKey::from_wire(name);
        let Some(Listed { is_on_link, role: Role::Asks(asking), .. }) = self.listed.get(op) else {
            return;
        };
        if asking.list.kind != OperationKind::Write || *is_on_link {
            return cx.broken(Violation::UnknownRequest { op: name });
        }
        match asking.step {
            Step::Moving => self.stop_sending(cx, op, Gaveup::Refused(Refused { why, range: 0 })),
            // It is sent, or given up: the answer says what has become of it.
            Step::Awaiting | Step::Stopping { .. } => {}
            Step::Waiting | Step::Asked | Step::Answered | Step::Halting { .. } => {
                cx.broken(Violation::UnknownRequest { op: name });
            }
        }
    }

    /// No more of a write is dealt, and the target knows. If all is dealt, it is too late.
    fn stop_sending(&mut self, cx: &mut Conversation, op: OpKey, why: Gaveup) {
        let Some(listed) = self.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let Role::Asks(asking) = &mut listed.role else { return };
        if is_dealt {
            return;
        }
        asking.step = Step::Stopping { why, is_answered: false };
        let said = match why {
            Gaveup::Cancelled => Refusal::Cancelled,
            Gaveup::Refused(refused) => refused.why,
        };
        self.say_stopped_write(cx, op.to_wire(), said);
        self.listed_moved(cx, op);
    }

    fn say_stopped_write(&mut self, cx: &mut Conversation, name: u64, why: Refusal) {
        let how = Ended::Stopped(Refused { why, range: 0 });
        cx.send(Frame::End { message: MessageId::Write(name), how });
    }

    /// The target sends no more bytes of a read of ours.
    pub(in super::super) fn handle_read_stopped(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        refused: Refused,
    ) {
        let broken = Violation::UnknownRequest { op: op.to_wire() };
        let Some(listed) = self.listed.get_mut(op) else { return cx.broken(broken) };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let asking = match &mut listed.role {
            Role::Asks(asking) if asking.list.kind == OperationKind::Read && !is_dealt => asking,
            _ => return cx.broken(broken),
        };
        asking.step = match asking.step {
            Step::Moving => Step::Halting { why: Gaveup::Refused(refused), is_stopped: true },
            Step::Halting { why, is_stopped: false } => Step::Halting { why, is_stopped: true },
            _ => return cx.broken(broken),
        };
        self.all_dealt(op);
        self.listed_moved(cx, op);
    }

    /// The program gives the operation of a transfer up, as far as it can. Returns whether it has
    /// one.
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

    /// The program gives an operation up, as far as it can.
    fn cancel_request(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(listed) = self.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let Role::Asks(asking) = &mut listed.role else { return };
        match (asking.step, asking.list.kind) {
            (Step::Waiting | Step::Asked, _) => {
                self.finish_request(cx, op, Outcome::Withdrawn(Withdrawal::Cancelled));
            }
            (Step::Moving, OperationKind::Write) => self.stop_sending(cx, op, Gaveup::Cancelled),
            (Step::Moving, OperationKind::Read) if !is_dealt => {
                asking.step = Step::Halting { why: Gaveup::Cancelled, is_stopped: false };
                let (message, why) = (MessageId::Read(op.to_wire()), Refusal::Cancelled);
                cx.send(Frame::Cancel { message, why });
            }
            _ => {}
        }
    }

    /// The program has no more time for a request, which it has given up: it does not wait for what
    /// the peer may never say.
    pub(in super::super) fn abandon_request(
        &mut self,
        cx: &mut Conversation,
        transfer: TransferKey,
    ) {
        let Some(op) = self.of_transfer.get(&transfer).copied() else { return };
        if let Some(asking) = self.asking(op) {
            asking.is_abandoned = true;
            self.end_abandoned(cx, op);
        }
    }

    /// An end leaves: what the peer has not heard of will not be asked. Once the peer has said
    /// goodbye, nor does it answer what it heard later.
    pub(in super::super) fn sweep_requests(&mut self, cx: &mut Conversation, why: Withdrawal) {
        let has_peer_left = why == Withdrawal::PeerLeft;
        let (mut unheard, mut broken) = (Vec::new(), None);
        for (op, listed) in &self.listed {
            let Role::Asks(asking) = &listed.role else { continue };
            let is_read = asking.list.kind == OperationKind::Read;
            let (dealt, bytes) = (listed.cursor.dealt, listed.pieces.bytes);
            match asking.step {
                Step::Waiting => unheard.push((op, Outcome::Withdrawn(why))),
                _ if !has_peer_left => {}
                Step::Asked | Step::Awaiting => unheard.push((op, Outcome::Withdrawn(why))),
                // Its parts went where nobody listened.
                Step::Moving if !is_read && listed.is_on_link => {
                    unheard.push((op, Outcome::Withdrawn(why)));
                }
                Step::Stopping { why, is_answered: false } if listed.is_on_link => {
                    unheard.push((op, why.into()));
                }
                // It has finished what it had begun, and this end comes after it.
                Step::Answered
                | Step::Stopping { is_answered: true, .. }
                | Step::Halting { is_stopped: true, .. } => {}
                Step::Moving | Step::Halting { .. } if is_read && dealt == bytes => {}
                Step::Moving | Step::Halting { .. } if is_read && dealt == 0 => {
                    unheard.push((op, Outcome::Withdrawn(why)));
                }
                Step::Moving | Step::Halting { .. } | Step::Stopping { .. } => broken = Some(op),
            }
        }
        for (op, outcome) in unheard {
            self.finish_request(cx, op, outcome);
        }
        if let Some(op) = broken {
            cx.broken(Violation::UnknownRequest { op: op.to_wire() });
        }
    }
}
