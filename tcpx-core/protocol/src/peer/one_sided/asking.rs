//! The initiator: what becomes of a request, from the post to its end.

use std::sync::Arc;

use super::super::PeerProtocol;
use super::super::action::{Action, Outcome, Violation};
use super::super::operation::{Links, NewOperation, OpState, PostedOperation, Withdrawal};
use super::super::tag_queues::Place;
use super::telling::Use;
use super::told::Refused;
use super::{Asking, Gaveup, Listed, NewRequest, Role, Step, Unanswered};
use crate::exports::refusal::Refusal;
use crate::frames::frame::one_sided::OneSidedFrame;
use crate::plans::piece_cursor::PieceCursor;
use crate::types::memory::OperationKind;
use crate::types::{OpKey, PreparedKey, TransferKey};

impl PeerProtocol {
    /// The program posts an operation, which [`check_posts`](Self::check_posts) allows; its
    /// transfer has no other under way. It ends with exactly one
    /// [`Action::CompleteListed`], or is handed out by [`take_listed`](Self::take_listed).
    pub fn handle_request(&mut self, request: NewRequest) -> OpKey {
        let NewRequest { transfer, list, note } = request;
        let direction = list.direction();
        let pieces = Arc::clone(&list.pieces);
        let posted =
            NewOperation { transfer, direction, tag: 0, span: pieces.start(), bytes: pieces.bytes };
        let (links, place) = (Links::default(), Place::default());
        let state = OpState::Asked;
        let op = self.operations.insert(PostedOperation { posted, state, links, place });
        let asking =
            Asking { list, note, step: Step::Waiting, uses_list: false, is_abandoned: false };
        let role = Role::Asks(asking);
        let cursor = PieceCursor::default();
        self.one_sided.listed.insert(
            op,
            Listed { pieces, cursor, cuts_pairs: false, is_on_link: false, recv: 0, role },
        );
        self.one_sided.of_transfer.insert(transfer, op);
        self.one_sided.unlisted.push_back(op);
        self.list_waiting();
        op
    }

    /// An operation's program has let go of it for good: the peer may forget its list.
    pub fn handle_unprepared(&mut self, list: PreparedKey) {
        self.one_sided.telling.drop_list(list);
    }

    /// Notifications of the program that the peer has no room for.
    pub fn unsent_notes(&self) -> usize {
        self.one_sided.notes.waiting()
    }

    /// A request of ours, by its name.
    pub(super) fn asking(&mut self, op: OpKey) -> Option<&mut Asking> {
        match &mut self.one_sided.listed.get_mut(op)?.role {
            Role::Asks(asking) => Some(asking),
            Role::Serves(_) => None,
        }
    }

    pub(super) fn is_waiting(&mut self, op: OpKey) -> bool {
        self.asking(op).is_some_and(|asking| asking.step == Step::Waiting)
    }

    /// Has lists told of requests that wait, as far as there is room for them.
    pub(super) fn list_waiting(&mut self) {
        while let Some(op) = self.one_sided.unlisted.front().copied() {
            let one_sided = &mut self.one_sided;
            if let Some(Listed { role: Role::Asks(asking), .. }) = one_sided.listed.get_mut(op) {
                let used = one_sided.telling.begin_use(&asking.list, op);
                if used == Use::NoRoom {
                    return;
                }
                asking.uses_list = true;
                if let Use::Known(_) = used {
                    self.ready(op);
                }
            }
            self.one_sided.unlisted.pop_front();
        }
    }

    /// The peer knows the list of a request.
    pub(super) fn ready(&mut self, op: OpKey) {
        let Some(asking) = self.asking(op) else { return };
        let (kind, has_note) = (asking.list.kind, asking.note.is_some());
        let one_sided = &mut self.one_sided;
        match (kind, has_note) {
            (OperationKind::Read, _) => one_sided.reads.push_back(op),
            (OperationKind::Write, false) => one_sided.writes.push_back(op),
            (OperationKind::Write, true) => one_sided.noted_writes.push_back(op),
        }
    }

    /// The program sends a notification by itself. Returns whether there is room for it.
    pub fn handle_note(&mut self, note: Arc<[u8]>) -> bool {
        let has_room = self.one_sided.notes.has_room(note.len());
        if has_room {
            self.one_sided.notes.push(note);
        }
        has_room
    }

    /// What notifications cost that wait to be sent.
    pub fn queued_notes(&self) -> u64 {
        self.one_sided.notes.queued()
    }

    /// The target takes the bytes of a write.
    pub(super) fn handle_grant(&mut self, name: u64, recv: u64, cut: bool) {
        if !self.one_sided.unanswered.contains_key(&name) {
            return self.broken(Violation::UnknownRequest { op: name });
        }
        let op = OpKey::from_wire(name);
        let Some(listed) = self.one_sided.listed.get_mut(op) else {
            // It was given up meanwhile.
            return self.say_stopped_write(name, Refusal::Cancelled);
        };
        let Role::Asks(asking @ Asking { step: Step::Asked, .. }) = &mut listed.role else {
            return self.broken(Violation::UnknownRequest { op: name });
        };
        asking.step = Step::Moving;
        (listed.recv, listed.cuts_pairs) = (recv, cut);
        self.begin_to_deal(op);
    }

    /// The target has answered a write.
    pub(super) fn handle_answer(&mut self, name: u64, refused: Option<Refused>) {
        let Some(Unanswered { list, on_link }) = self.one_sided.unanswered.remove(&name) else {
            return self.broken(Violation::UnknownRequest { op: name });
        };
        self.one_sided.writes_on_link -= on_link;
        self.one_sided.telling.end_use(list);
        self.list_waiting();
        let op = OpKey::from_wire(name);
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let is_on_link = listed.is_on_link;
        let Role::Asks(asking) = &mut listed.role else { return };
        match (asking.step, refused) {
            (Step::Moving, Some(refused)) if is_on_link => {
                self.say_stopped_write(name, refused.why);
                self.finish_request(op, refused.into());
            }
            (Step::Moving, None) if is_dealt => asking.step = Step::Answered,
            (Step::Awaiting, None) => self.finish_request(op, Outcome::Done),
            (Step::Asked | Step::Awaiting, Some(refused)) => {
                self.finish_request(op, refused.into())
            }
            (Step::Stopping { why, .. }, Some(_)) => {
                asking.step = Step::Stopping { why, is_answered: true };
                self.listed_moved(op);
            }
            _ => self.broken(Violation::UnknownRequest { op: name }),
        }
    }

    /// Whoever receives the bytes of a write of ours wants no more.
    pub(super) fn handle_write_halted(&mut self, name: u64, why: Refusal) {
        let op = OpKey::from_wire(name);
        let Some(Listed { is_on_link, role: Role::Asks(asking), .. }) =
            self.one_sided.listed.get(op)
        else {
            return;
        };
        if asking.list.kind != OperationKind::Write || *is_on_link {
            return self.broken(Violation::UnknownRequest { op: name });
        }
        match asking.step {
            Step::Moving => self.stop_sending(op, Gaveup::Refused(Refused { why, range: 0 })),
            // It is sent, or given up: the answer says what has become of it.
            Step::Awaiting | Step::Stopping { .. } => {}
            Step::Waiting | Step::Asked | Step::Answered | Step::Halting { .. } => {
                self.broken(Violation::UnknownRequest { op: name });
            }
        }
    }

    /// No more of a write is dealt, and the target knows. If all is dealt, it is too late.
    fn stop_sending(&mut self, op: OpKey, why: Gaveup) {
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
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
        self.say_stopped_write(op.to_wire(), said);
        self.listed_moved(op);
    }

    fn say_stopped_write(&mut self, name: u64, why: Refusal) {
        let kind = OperationKind::Write;
        self.say(OneSidedFrame::Stopped { kind, op: name, why, range: 0 });
    }

    /// The target sends no more bytes of a read of ours.
    pub(super) fn handle_read_stopped(&mut self, op: OpKey, refused: Refused) {
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let Role::Asks(asking) = &mut listed.role else { return };
        asking.step = match asking.step {
            Step::Moving if !is_dealt => {
                Step::Halting { why: Gaveup::Refused(refused), is_stopped: true }
            }
            Step::Halting { why, is_stopped: false } if !is_dealt => {
                Step::Halting { why, is_stopped: true }
            }
            _ => return self.broken(Violation::UnknownReceive { recv: op.to_wire() }),
        };
        self.all_dealt(op);
        self.listed_moved(op);
    }

    /// The target deals no more of a read of ours.
    pub(super) fn all_dealt(&mut self, op: OpKey) {
        if let Some(key) = self.one_sided.undealt.remove(&op.to_wire()) {
            self.one_sided.telling.end_use(key);
            self.list_waiting();
        }
    }

    /// The program gives an operation up, as far as it can.
    pub(in super::super) fn cancel_request(&mut self, op: OpKey) {
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
        let is_dealt = listed.cursor.dealt == listed.pieces.bytes;
        let Role::Asks(asking) = &mut listed.role else { return };
        match (asking.step, asking.list.kind) {
            (Step::Waiting | Step::Asked, _) => {
                self.finish_request(op, Outcome::Withdrawn(Withdrawal::Cancelled));
            }
            (Step::Moving, OperationKind::Write) => self.stop_sending(op, Gaveup::Cancelled),
            (Step::Moving, OperationKind::Read) if !is_dealt => {
                asking.step = Step::Halting { why: Gaveup::Cancelled, is_stopped: false };
                let kind = OperationKind::Read;
                let why = Refusal::Cancelled;
                self.say(OneSidedFrame::Halt { kind, op: op.to_wire(), why });
            }
            _ => {}
        }
    }

    /// The program has no more time for a request, which it has given up: it does not wait for what
    /// the peer may never say.
    pub(in super::super) fn abandon_request(&mut self, transfer: TransferKey) {
        let Some(op) = self.one_sided.of_transfer.get(&transfer).copied() else { return };
        if let Some(asking) = self.asking(op) {
            asking.is_abandoned = true;
            self.end_abandoned(op);
        }
    }

    /// Ends a write that was abandoned, if its memory is free. Its name and its list stay in use
    /// until the answer.
    pub(super) fn end_abandoned(&mut self, op: OpKey) {
        let is_free = self.operations.get(op).is_some_and(|it| it.state == OpState::Asked);
        if is_free && self.asking(op).is_some_and(|asking| asking.is_abandoned) {
            self.finish_request(op, Outcome::Withdrawn(Withdrawal::Cancelled));
        }
    }

    /// An end leaves: what the peer has not heard of will not be asked. Once the peer has said
    /// goodbye, nor does it answer what it heard later.
    pub(in super::super) fn sweep_requests(&mut self, why: Withdrawal) {
        let has_peer_left = why == Withdrawal::PeerLeft;
        let (mut unheard, mut broken) = (Vec::new(), None);
        for (op, listed) in &self.one_sided.listed {
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
            self.finish_request(op, outcome);
        }
        if let Some(op) = broken {
            self.broken(Violation::UnknownRequest { op: op.to_wire() });
        }
    }

    /// A request has ended.
    pub(super) fn finish_request(&mut self, op: OpKey, outcome: Outcome) {
        let Some(Listed { role: Role::Asks(asking), .. }) = self.one_sided.listed.remove(op) else {
            return;
        };
        let Some(operation) = self.operations.remove(op) else { return };
        let transfer: TransferKey = operation.posted.transfer;
        self.one_sided.of_transfer.remove(&transfer);
        if asking.step == Step::Waiting && asking.uses_list {
            self.one_sided.telling.end_use(asking.list.key);
            self.list_waiting();
        }
        if outcome == Outcome::Done
            && asking.list.kind == OperationKind::Read
            && let Some(note) = asking.note
        {
            self.one_sided.notes.push(note);
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
            self.one_sided.telling.drop_list(list.key);
        }
        self.actions.push_back(Action::CompleteListed { transfer, list, outcome });
    }
}
