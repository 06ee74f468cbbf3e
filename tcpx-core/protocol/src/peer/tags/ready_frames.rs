//! Announcements of receives that have no counterpart, their number at each end, and other things
//! that an end makes the other one keep. Pure.
//!
//! The end that hears of a receive keeps it until a send meets it, as it keeps messages that go
//! ahead, and notifications that its program has not taken. So it [says](super::flow_control) how
//! much may come. A receive for which there is no room waits at its own end, in the order of the
//! posts, and holds up nothing but receives that were posted behind it: to the other end it is as
//! if it were posted when it is announced. A message that goes ahead meets it all the same.
//!
//! Small messages on the control link: delivered to a receive that was announced, or gone ahead of
//! one that was not.
//!
//! Messages that go ahead pair with receives of their tag, oldest first, and each end sees by
//! itself which ones. A message goes ahead only under three conditions. Its sender knows of no
//! receive of the tag, no older send of the tag waits there, and the receiver has learnt of every
//! match of the tag. So the receiver gives the message to the oldest receive of the tag that it has
//! announced, if there is one: the announcement crosses the message on the link. When the sender
//! sees the announcement it strikes out its oldest message of the tag that went ahead. A message
//! that finds no receive is kept. The receive that is posted for it later is not announced; *taken*
//! tells the sender of it. As nothing of a tag is kept while a receive of the tag waits, both ends
//! come to the same pairs.
//!
//! The receiver [says](super::flow_control) how much may go ahead. What finds no room is announced
//! and matched as longer messages are.

use std::collections::TryReserveError;

use super::super::action::{Action, Landing, Outcome};
use super::super::conversation::Conversation;
use super::super::lifecycle::stage::Stage;
use super::super::message::{NewOperation, State};
use super::super::schedule::route::{Load, Message, Route, route};
use super::super::violation::Violation;
use super::Tags;
use super::eager_queues::UnexpectedMessage;
use super::receives::MessageEnd;
use crate::frames::eager_terms::{ANY_LENGTH, CreditKind, EagerTerms};
use crate::frames::frame::{Frame, READY_FRAME_BYTES};
use crate::frames::messages::{LinkChunk, MessageId, Offer, Ready};
use crate::plans::plan::Member;
use crate::types::{Direction, OpKey};

impl Tags {
    /// Announces a receive.
    #[inline]
    pub(in super::super) fn send_ready(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(operation) = cx.operations.get_mut(op) else { return };
        let posted = operation.posted;
        operation.place = self.eager.add_receive(posted.tag, op);
        operation.state = State::ReadySent;
        let delivery = MessageEnd::delivery(self.last_ready.as_ref(), &posted.span);
        self.last_ready = Some(MessageEnd::new(posted.span, posted.bytes));
        let (recv, tag, bytes) = (op.to_wire(), posted.tag, posted.bytes);
        self.receives.outgoing.sent += 1;
        cx.send(Frame::Ready(Ready::Receive { recv, tag, bytes, delivery }));
    }

    /// Returns whether a receive that has waited is announced, as soon as the link has room.
    pub(in super::super) fn has_ready_to_send(&self, cx: &Conversation) -> bool {
        matches!(cx.life.stage, Stage::Up { .. }) && self.receives.has_next()
    }

    /// Announces the receive that has waited longest. Returns false if there is none, or no room.
    #[inline]
    pub(in super::super) fn send_next_ready(&mut self, cx: &mut Conversation) -> bool {
        self.receives.has_next() && self.send_oldest_ready(cx)
    }

    fn send_oldest_ready(&mut self, cx: &mut Conversation) -> bool {
        if cx.link.bytes == 0 || !self.has_ready_to_send(cx) {
            return false;
        }
        let Some((_, op)) = self.receives.queued.pop_oldest() else { return false };
        cx.link.bytes = cx.link.bytes.saturating_sub(READY_FRAME_BYTES);
        self.send_ready(cx, op);
        true
    }

    /// Takes a message of the peer that went ahead for the next receive of its tag, which waits to
    /// be announced: the receive has its message, as if it were posted now.
    pub(in super::super) fn take_queued_receive(&mut self, tag: i64) -> Option<OpKey> {
        self.receives.queued.pop(tag)
    }

    /// Makes room for `count` posts in the books.
    pub(in super::super) fn make_room_for_receives(
        &mut self,
        direction: Direction,
        count: usize,
    ) -> Result<(), TryReserveError> {
        match direction {
            Direction::Send => Ok(()),
            Direction::Receive => self.receives.make_room(count),
        }
    }

    /// Returns whether a send that is posted goes ahead.
    pub(in super::super) fn is_eager(&self, cx: &Conversation, posted: &NewOperation) -> bool {
        let Self { eager, matcher, .. } = self;
        // The room that the peer gives bounds what is on the link of these.
        let load = Load { link_room: usize::MAX, on_link: 0 };
        let message = Message::Tagged { bytes: posted.bytes, together: eager.batch };
        let terms = &cx.link.terms;
        // It goes into the peer's buffer.
        let longest = [terms.longest_in(posted.span.memory), ANY_LENGTH];
        route((&cx.schedule.tuning, terms), load, message, longest) == Route::Inline
            && eager.outgoing.has(EagerTerms::cost(posted.bytes))
            && !cx.schedule.may_owe_match(posted.tag)
            && matcher.has_none(posted.tag)
    }

    /// Sends a message ahead for a send that is posted; the send is done.
    pub(in super::super) fn send_eager(
        &mut self,
        cx: &mut Conversation,
        posted: NewOperation,
    ) -> OpKey {
        let NewOperation { tag, bytes, .. } = posted;
        cx.messages.sent += 1;
        self.eager.sent.push(tag, ());
        self.eager.outgoing.sent += EagerTerms::cost(bytes);
        let op = self.insert_matched(cx, posted);
        // The allowed room has no more than 32 bits.
        self.send_on_link(cx, op, Frame::Offer(Offer::Eager { tag, bytes: bytes as u32 }));
        op
    }

    /// Delivers a send to the receive of this name; the send is done.
    pub(in super::super) fn send_inline(
        &mut self,
        cx: &mut Conversation,
        member: &Member,
        recv: u64,
    ) {
        cx.link.bytes = cx.link.bytes.saturating_sub(member.bytes as usize);
        let part = LinkChunk { of: MessageId::Receive(recv), bytes: member.bytes as u32 };
        self.send_on_link(cx, member.op, Frame::LinkChunk(part));
    }

    fn send_on_link(&mut self, cx: &mut Conversation, op: OpKey, frame: Frame) {
        let Some(operation) = cx.operations.get(op) else { return };
        let member = operation.member(op);
        cx.messages.sent_on_link.note(member.bytes);
        cx.actions.push_back(Action::SendMessage { frame, member });
        self.complete(cx, op, Outcome::Done);
    }

    /// Handles a delivery: a send of the peer was matched with a receive of ours, and its bytes are
    /// here.
    pub(in super::super) fn handle_inline(
        &mut self,
        cx: &mut Conversation,
        recv: u64,
        bytes: u32,
    ) -> Landing {
        let Some((op, recv_bytes)) = self.own_receive(cx, recv) else {
            cx.broken(Violation::UnknownReceive { recv });
            return Landing::Nowhere;
        };
        let memory = cx.operations[op].posted.span.memory;
        let terms = &cx.link.terms;
        let is_fit = u64::from(bytes) == recv_bytes
            && terms.allows(recv_bytes)
            && recv_bytes <= terms.longest_in(memory);
        if !is_fit {
            let of = MessageId::Receive(recv);
            cx.broken(Violation::Part { of, bytes });
            return Landing::Nowhere;
        }
        self.receive_message(cx, op, recv_bytes)
    }

    /// Handles a message of the peer that went ahead of its receive, by what the peer knew.
    pub(in super::super) fn handle_eager(
        &mut self,
        cx: &mut Conversation,
        tag: i64,
        bytes: u64,
    ) -> Landing {
        let terms = cx.link.terms;
        if !terms.allows(bytes) || terms.buffer == 0 {
            cx.broken(Violation::Ahead { bytes });
            return Landing::Nowhere;
        }
        let cost = EagerTerms::cost(bytes);
        if !self.eager.incoming.receive(cost) {
            cx.broken(self.eager.incoming.refused(CreditKind::Unexpected));
            return Landing::Nowhere;
        }
        if let Some(op) = self.eager.receives.pop(tag) {
            return self.receive_message(cx, op, bytes);
        }
        if let Some(op) = self.take_queued_receive(tag) {
            let landing = self.receive_message(cx, op, bytes);
            cx.send(Frame::taken(tag));
            return landing;
        }
        if let Stage::Closing(shutdown) = &cx.life.stage {
            // No receive will come for it. The peer's goodbye waits until it knows.
            if !shutdown.has_sent_goodbye() {
                cx.send(Frame::taken(tag));
            }
            return Landing::Nowhere;
        }
        self.eager.buffer_used += cost;
        let number = self.eager.numbers_used;
        self.eager.numbers_used += 1;
        self.eager.unexpected.push(tag, UnexpectedMessage { number, bytes });
        Landing::Unexpected(number)
    }

    /// Takes, for a receive that is posted, the oldest message of its tag that is kept, if there is
    /// one.
    #[inline]
    pub(in super::super) fn take_unexpected(
        &mut self,
        cx: &mut Conversation,
        posted: &NewOperation,
    ) -> Option<OpKey> {
        if self.eager.unexpected.len() == 0 {
            return None;
        }
        let kept = self.eager.unexpected.pop(posted.tag)?;
        self.eager.buffer_used -= EagerTerms::cost(kept.bytes);
        cx.send(Frame::taken(posted.tag));
        let op = self.insert_matched(cx, *posted);
        let landing = cx.operations[op].member(op);
        let into = (kept.bytes == posted.bytes).then_some(landing);
        cx.actions.push_back(Action::TakeUnexpected { number: kept.number, into });
        self.receive_message(cx, op, kept.bytes);
        Some(op)
    }

    /// Completes a receive with its message of this many bytes.
    pub(in super::super) fn receive_message(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        send_bytes: u64,
    ) -> Landing {
        let Some(operation) = cx.operations.get(op) else { return Landing::Nowhere };
        let member = operation.member(op);
        let recv_bytes = member.bytes;
        if send_bytes != recv_bytes {
            self.complete(cx, op, Outcome::SizeMismatch { send_bytes, recv_bytes });
            return Landing::Nowhere;
        }
        cx.messages.received += 1;
        cx.messages.received_on_link.note(recv_bytes);
        self.complete(cx, op, Outcome::Done);
        Landing::Place(member)
    }

    /// Drops what is kept: this end posts no receive any more. `is_told`: the peer waits to know.
    pub(in super::super) fn drop_unexpected(&mut self, cx: &mut Conversation, is_told: bool) {
        while let Some((tag, UnexpectedMessage { number, .. })) = self.eager.unexpected.pop_oldest()
        {
            cx.actions.push_back(Action::TakeUnexpected { number, into: None });
            if is_told {
                cx.send(Frame::taken(tag));
            }
        }
        self.eager.buffer_used = 0;
    }
}
