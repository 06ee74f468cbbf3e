//! How many receives each end announces that have no counterpart, and what else it makes the other
//! one keep. Pure.
//!
//! The end that hears of a receive keeps it until a send meets it, as it keeps messages that go
//! ahead, and notifications that its program has not taken. So it [says](super::room) how much may
//! come. A receive for which there is no room waits at its own end, in the order of the posts, and
//! holds up nothing but receives that were posted behind it: to the other end it is as if it were
//! posted when it is announced. A message that goes ahead meets it all the same.
//!
//! Small messages on the control link: delivered to a receive that was announced, or gone ahead of
//! one that was not.
//!
//! Messages that go ahead pair with receives of their tag, oldest first, and each end sees by
//! itself which ones: a message goes ahead only when its sender knows of no receive of the tag, no
//! older send of the tag waits there, and the receiver was told of every match of the tag. So the
//! receiver gives it to the oldest receive of the tag that it has announced, if there is one: the
//! announcement crosses the message on the link. When the sender sees the announcement it strikes
//! out its oldest message of the tag that went ahead. A message that finds no receive is kept. The
//! receive that is posted for it later is not announced; *taken* tells the sender of it. As nothing
//! of a tag is kept while a receive of the tag waits, both ends come to the same pairs.
//!
//! The receiver [says](super::room) how much may go ahead. What finds no room is announced and
//! matched as longer messages are.

use std::collections::TryReserveError;

use super::PeerProtocol;
use super::action::{Action, Landing, Outcome, Violation};
use super::eager_books::{Kept, LINK_BYTES};
use super::operation::{Links, NewOperation, OpState, PostedOperation};
use super::receives::MessageEnd;
use super::route::{Load, Message, Route, route};
use super::stage::Stage;
use super::tag_queues::Place;
use crate::frames::eager_terms::{EagerTerms, Keeping};
use crate::frames::frame::{ANNOUNCE_FRAME_BYTES, Frame};
use crate::plans::plan::Member;
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// Receives of ours that the peer takes no announcement of for now.
    pub fn unannounced(&self) -> usize {
        self.announcing.unannounced.len()
    }

    /// Announces a receive.
    #[inline]
    pub(super) fn announce(&mut self, op: OpKey) {
        let Some(operation) = self.operations.get_mut(op) else { return };
        let posted = operation.posted;
        operation.place = self.eager.await_message(posted.tag, op);
        operation.state = OpState::Announced;
        let delivery = MessageEnd::delivery(self.last_announced.as_ref(), &posted.span);
        self.last_announced = Some(MessageEnd::new(posted.span, posted.bytes));
        let (recv, tag, bytes) = (op.to_wire(), posted.tag, posted.bytes);
        self.announcing.allowed.sent += 1;
        self.actions.push_back(Action::Send(Frame::Announce { recv, tag, bytes, delivery }));
    }

    /// Whether a receive that has waited is announced, as soon as the link has room.
    pub(super) fn announces_more(&self) -> bool {
        matches!(self.stage, Stage::Up { .. }) && self.announcing.has_next()
    }

    /// Announces the receive that has waited longest. False if there is none, or no room.
    pub(super) fn announce_next(&mut self) -> bool {
        if self.eager.link_room == 0 || !self.announces_more() {
            return false;
        }
        let Some((_, op)) = self.announcing.unannounced.pop_oldest() else { return false };
        self.eager.link_room = self.eager.link_room.saturating_sub(ANNOUNCE_FRAME_BYTES);
        self.announce(op);
        true
    }

    /// The peer takes so much of this, counted from the first one.
    pub(super) fn peer_takes(&mut self, what: Keeping, count: u64) {
        let allowed = match what {
            Keeping::Receives => &mut self.announcing.allowed,
            Keeping::Ahead => &mut self.eager.allowed,
            Keeping::Notes => &mut self.one_sided.notes.allowed,
        };
        if let Err(violation) = allowed.hear(what, count) {
            self.broken(violation);
        }
    }

    /// The peer sends more of this than it may.
    #[cold]
    pub(super) fn no_room(&mut self, what: Keeping) {
        let given = match what {
            Keeping::Receives => &self.announcing.given,
            Keeping::Ahead => &self.eager.given,
            Keeping::Notes => &self.one_sided.notes.given,
        };
        self.broken(Violation::NoRoom { what, limit: given.given() });
    }

    /// What the peer may send before this end says more.
    pub(super) fn let_send_at_first(&mut self) {
        for (what, count) in [
            (Keeping::Receives, self.announcing.given.first()),
            (Keeping::Ahead, self.eager.given.first()),
            (Keeping::Notes, self.one_sided.notes.given.first()),
        ] {
            if let Some(count) = count {
                self.actions.push_back(Action::Send(Frame::MaySend { what, count }));
            }
        }
    }

    /// Lets the peer send more of what is kept, if it is about to need that and there is memory.
    /// Notifications of a peer go on while this end leaves.
    #[inline]
    pub(super) fn let_send(&mut self) -> bool {
        let is_up = match &self.stage {
            Stage::Up { .. } => true,
            Stage::Closing(shutdown) if !shutdown.has_said_goodbye() => false,
            Stage::Connecting { .. } | Stage::Closing(_) | Stage::Over => return false,
        };
        // What one kind gives back may be what another one waits for.
        let receives = is_up && self.announcing.given.look(self.matcher.announced() as u64);
        let ahead = is_up && self.eager.given.look(self.eager.buffer_used);
        let notes = self.one_sided.notes.look();
        if !(receives || ahead || notes) {
            return false;
        }
        let said = self.actions.len();
        for (is_due, what, given) in [
            (receives, Keeping::Receives, &mut self.announcing.given),
            (ahead, Keeping::Ahead, &mut self.eager.given),
            (notes, Keeping::Notes, &mut self.one_sided.notes.given),
        ] {
            if is_due && let Some(count) = given.give() {
                self.actions.push_back(Action::Send(Frame::MaySend { what, count }));
            }
        }
        self.actions.len() > said
    }

    /// A message of the peer went ahead, and the receive of its tag that comes next waits to be
    /// announced: it has its message, as if it were posted now.
    pub(super) fn take_unannounced(&mut self, tag: i64) -> Option<OpKey> {
        self.announcing.unannounced.pop(tag)
    }

    /// Makes room for so many posts in the books.
    pub(super) fn make_room_to_announce(
        &mut self,
        direction: Direction,
        count: usize,
    ) -> Result<(), TryReserveError> {
        match direction {
            Direction::Send => Ok(()),
            Direction::Receive => self.announcing.make_room(count),
        }
    }
}

impl PeerProtocol {
    /// So many operations are posted next, as one batch.
    pub fn handle_batch_of(&mut self, count: usize) {
        self.eager.batch = count;
    }

    /// So many bytes wait on the link for the kernel.
    #[inline]
    pub fn handle_unsent(&mut self, bytes: usize) {
        self.eager.link_room = LINK_BYTES.saturating_sub(bytes);
        self.eager.is_link_clear = bytes == 0;
    }

    /// Messages of this end that went ahead and have no receive, as far as it knows.
    pub fn unreceived(&self) -> usize {
        self.eager.unreceived()
    }

    /// Messages of the peer that wait here for their receives.
    pub fn kept(&self) -> usize {
        self.eager.kept.len()
    }

    /// Whether a send that is posted goes ahead.
    pub(super) fn goes_ahead(&self, posted: &NewOperation) -> bool {
        let Self { eager, schedule, matcher, .. } = self;
        // What the peer takes bounds what is on the link of these.
        let load = Load { link_room: usize::MAX, on_link: 0 };
        let message = Message::Tagged { bytes: posted.bytes, together: eager.batch };
        let numbers = (&schedule.tuning, &eager.terms);
        route(numbers, load, message, posted.span.memory, true) == Route::Inline
            && eager.allowed.has(EagerTerms::cost(posted.bytes))
            && !schedule.may_owe_match(posted.tag)
            && matcher.has_none(posted.tag)
    }

    /// A send that is posted goes ahead, and is done.
    pub(super) fn go_ahead(&mut self, posted: NewOperation) -> OpKey {
        let NewOperation { tag, bytes, .. } = posted;
        self.messages.sent += 1;
        self.eager.ahead.push(tag, ());
        self.eager.allowed.sent += EagerTerms::cost(bytes);
        let op = self.insert_matched(posted);
        // What is allowed has no more than 32 bits.
        self.send_on_link(op, Frame::Ahead { tag, bytes: bytes as u32 });
        op
    }

    /// A send is delivered to the receive of this name, and done.
    pub(super) fn deliver(&mut self, member: &Member, recv: u64) {
        self.eager.link_room = self.eager.link_room.saturating_sub(member.bytes as usize);
        self.send_on_link(member.op, Frame::Deliver { recv, bytes: member.bytes as u32 });
    }

    fn send_on_link(&mut self, op: OpKey, frame: Frame) {
        let Some(operation) = self.operations.get(op) else { return };
        let member = operation.member(op);
        self.messages.sent_on_link.note(member.bytes);
        self.actions.push_back(Action::SendMessage { frame, member });
        self.complete(op, Outcome::Done);
    }

    /// An operation that needs not wait for its counterpart.
    pub(super) fn insert_matched(&mut self, posted: NewOperation) -> OpKey {
        let state = OpState::Matched { bytes_left: posted.bytes, bytes_dealt: 0 };
        let (links, place) = (Links::default(), Place::default());
        self.operations.insert(PostedOperation { posted, state, links, place })
    }

    /// A send of the peer was matched with a receive of ours, and its bytes are here.
    pub(super) fn handle_delivery(&mut self, recv: u64, bytes: u64) -> Landing {
        let Some((op, recv_bytes)) = self.own_receive(recv) else {
            self.broken(Violation::UnknownReceive { recv });
            return Landing::Nowhere;
        };
        let is_fit = bytes == recv_bytes && self.eager.allows(&self.operations[op].posted);
        if !is_fit {
            self.broken(Violation::Delivery { recv, bytes });
            return Landing::Nowhere;
        }
        self.receive_message(op, bytes)
    }

    /// A message of the peer went ahead of its receive, as far as the peer knew.
    pub(super) fn handle_ahead(&mut self, tag: i64, bytes: u64) -> Landing {
        let terms = self.eager.terms;
        if !terms.allows(bytes) || terms.buffer == 0 {
            self.broken(Violation::Ahead { bytes });
            return Landing::Nowhere;
        }
        let cost = EagerTerms::cost(bytes);
        if !self.eager.given.comes(cost) {
            self.no_room(Keeping::Ahead);
            return Landing::Nowhere;
        }
        if let Some(op) = self.eager.receives.pop(tag) {
            return self.receive_message(op, bytes);
        }
        if let Some(op) = self.take_unannounced(tag) {
            let landing = self.receive_message(op, bytes);
            self.actions.push_back(Action::Send(Frame::Taken { tag }));
            return landing;
        }
        if let Stage::Closing(shutdown) = &self.stage {
            // No receive will come for it. The peer's goodbye waits until it knows.
            if !shutdown.has_said_goodbye() {
                self.actions.push_back(Action::Send(Frame::Taken { tag }));
            }
            return Landing::Nowhere;
        }
        self.eager.buffer_used += cost;
        let number = self.eager.numbers_used;
        self.eager.numbers_used += 1;
        self.eager.kept.push(tag, Kept { number, bytes });
        Landing::Kept(number)
    }

    /// A receive that is posted takes the oldest message of its tag that is kept, if there is one.
    #[inline]
    pub(super) fn take_kept(&mut self, posted: &NewOperation) -> Option<OpKey> {
        if self.eager.kept.len() == 0 {
            return None;
        }
        let kept = self.eager.kept.pop(posted.tag)?;
        self.eager.buffer_used -= EagerTerms::cost(kept.bytes);
        self.actions.push_back(Action::Send(Frame::Taken { tag: posted.tag }));
        let op = self.insert_matched(*posted);
        let landing = self.operations[op].member(op);
        let into = (kept.bytes == posted.bytes).then_some(landing);
        self.actions.push_back(Action::TakeKept { number: kept.number, into });
        self.receive_message(op, kept.bytes);
        Some(op)
    }

    /// A receive has its message of so many bytes.
    fn receive_message(&mut self, op: OpKey, send_bytes: u64) -> Landing {
        let Some(operation) = self.operations.get(op) else { return Landing::Nowhere };
        let member = operation.member(op);
        let recv_bytes = member.bytes;
        if send_bytes != recv_bytes {
            self.complete(op, Outcome::SizeMismatch { send_bytes, recv_bytes });
            return Landing::Nowhere;
        }
        self.messages.received += 1;
        self.messages.received_on_link.note(recv_bytes);
        self.complete(op, Outcome::Done);
        Landing::Place(member)
    }

    /// This end posts no receive any more: what is kept goes. `is_told`: the peer waits to know.
    pub(super) fn drop_kept(&mut self, is_told: bool) {
        while let Some((tag, Kept { number, .. })) = self.eager.kept.pop_oldest() {
            self.actions.push_back(Action::TakeKept { number, into: None });
            if is_told {
                self.actions.push_back(Action::Send(Frame::Taken { tag }));
            }
        }
        self.eager.buffer_used = 0;
    }
}
