//! Posts: how sends and receives find each other, and how they end.
//!
//! Room for a batch of posts, made before any of them is posted: a program chooses how many they
//! are, and where memory runs out all of them are refused.

use std::collections::TryReserveError;

use super::super::action::Outcome;
use super::super::conversation::Conversation;
use super::super::flow_control::MAX_POSTED_RECEIVES;
use super::super::lifecycle::stage::Stage;
use super::super::message::{Links, Message, NewOperation, State};
use super::super::schedule::coalescer::MatchedSend;
use super::super::schedule::route::FEW;
use super::super::violation::Violation;
use super::Tags;
use super::backlogs::link_behind;
use super::matcher::{PostedReceive, PostedSend};
use super::tag_queues::QueuePlace;
use crate::frames::eager_terms::CreditKind;
use crate::frames::fields::Delivery;
use crate::frames::frame::{ANSWER_FRAME_BYTES, EAGER_FRAME_BYTES, Frame, READY_FRAME_BYTES};
use crate::frames::messages::Ended;
use crate::types::{Direction, OpKey};

/// Reason why operations cannot be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The peer is not up.
    NotUp,
    /// `MAX_POSTED_RECEIVES` receives without a counterpart are the most there can be.
    TooManyReceives,
}

impl Tags {
    /// Returns whether this many operations may be posted now.
    pub(in super::super) fn check_posts(
        &self,
        cx: &Conversation,
        direction: Direction,
        count: usize,
    ) -> Result<(), PostError> {
        if !matches!(cx.life.stage, Stage::Up { .. }) {
            return Err(PostError::NotUp);
        }
        // The peer counts the same ones, or fewer: a match or an answered cancel reaches it first.
        let waiting = self.waiting_receives.saturating_add(count);
        if direction == Direction::Receive && waiting > MAX_POSTED_RECEIVES {
            return Err(PostError::TooManyReceives);
        }
        Ok(())
    }

    /// Posts an operation of the program, which [`check_posts`](Self::check_posts) allows. The
    /// operation ends with exactly one [`Action::Complete`], or is handed out by
    /// [`take_operations`](Self::take_operations).
    #[inline]
    pub(in super::super) fn handle_post(
        &mut self,
        cx: &mut Conversation,
        posted: NewOperation,
    ) -> OpKey {
        let NewOperation { transfer, direction, tag, .. } = posted;
        match direction {
            Direction::Send => self.post_send(cx, posted),
            Direction::Receive => {
                if let Some(op) = self.take_unexpected(cx, &posted) {
                    return op;
                }
                let mut links = Links::default();
                let is_next = self.receives.is_next();
                let op = cx.operations.insert_with_key(|op| {
                    links = self.backlogs.begin_to_wait(transfer, op);
                    let place = match is_next {
                        true => QueuePlace::default(),
                        false => self.receives.queued.push(tag, op),
                    };
                    Message { links, place, ..Message::new(posted, State::ReadyQueued) }
                });
                link_behind(links, op, &mut cx.operations);
                self.waiting_receives += 1;
                if is_next {
                    self.send_ready(cx, op);
                }
                op
            }
        }
    }

    fn post_send(&mut self, cx: &mut Conversation, posted: NewOperation) -> OpKey {
        if self.is_eager(cx, &posted) {
            return self.send_eager(cx, posted);
        }
        // The operation is matched unless it turns out that it waits.
        let op = self.insert_matched(cx, posted);
        match self.matcher.post_send(posted.tag, op) {
            PostedSend::Waits(place) => {
                let links = self.backlogs.begin_to_wait(posted.transfer, op);
                let operation = &mut cx.operations[op];
                (operation.state, operation.links) = (State::AwaitsReceive, links);
                operation.place = place;
                link_behind(links, op, &mut cx.operations);
            }
            PostedSend::Matched(announced) => self.meet(cx, op, announced),
        }
        op
    }

    /// Notes that the peer has taken a message of ours that went ahead, or thrown it away.
    pub(in super::super) fn handle_eager_done(&mut self, tag: i64) -> Result<(), Violation> {
        self.eager.match_oldest_sent(tag).then_some(()).ok_or(Violation::NothingAhead { tag })
    }

    /// Withdraws a receive that the peer announced, for the peer. Returns false when it was matched
    /// already.
    pub(in super::super) fn withdraw_receive(&mut self, recv: u64) -> bool {
        self.matcher.withdraw_receive(recv)
    }

    /// Handles a receive that the peer posted.
    pub(in super::super) fn handle_receive_ready(
        &mut self,
        cx: &mut Conversation,
        tag: i64,
        (recv, bytes, delivery): (u64, u64, Delivery),
    ) -> Result<(), Violation> {
        let incoming = &mut self.receives.incoming;
        let announced = PostedReceive { recv, bytes, delivery, number: incoming.received };
        if !incoming.receive(1) {
            return Err(incoming.refused(CreditKind::Receives));
        }
        if self.eager.match_oldest_sent(tag) {
            // The receive has its message by now.
            return Ok(());
        }
        let send = self.matcher.announce(tag, announced);
        if let Some(send) = send.map_err(|_| Violation::AnnouncedTwice { recv })? {
            self.meet(cx, send, announced);
        }
        Ok(())
    }

    /// Handles the meeting of a send of ours with its receive.
    pub(in super::super) fn meet(
        &mut self,
        cx: &mut Conversation,
        send: OpKey,
        announced: PostedReceive,
    ) {
        let Some(operation) = cx.operations.get_mut(send) else { return };
        let (send_bytes, recv_bytes) = (operation.posted.bytes, announced.bytes);
        let member = operation.member(send);
        operation.name = announced.recv;
        let before = std::mem::replace(&mut operation.state, State::Moving);
        if before == State::AwaitsReceive {
            let links = operation.links;
            self.leave_list(cx, send, member.transfer, before, links);
        }
        if send_bytes != recv_bytes {
            cx.send(Frame::end_of(announced.recv, Ended::OtherSize(send_bytes)));
            return self.complete(cx, send, Outcome::SizeMismatch { send_bytes, recv_bytes });
        }
        cx.messages.sent += 1;
        cx.schedule.push(MatchedSend { member, announced });
    }
}

/// Operations that are posted between two polls of what they have queued: a bound on that queue.
pub const PORTION: usize = 1024;
/// Most actions that one post queues at once: a receive takes what is kept, says so, and ends.
const ACTIONS: usize = 3;

impl Tags {
    /// Makes room for operations that are posted next, [`PORTION`] at a time. Posting them
    /// allocates nothing then, until what was matched is planned.
    pub(in super::super) fn make_room(
        &mut self,
        cx: &mut Conversation,
        direction: Direction,
        count: usize,
    ) -> Result<(), TryReserveError> {
        cx.actions.try_reserve(ACTIONS * count.min(PORTION))?;
        match direction {
            Direction::Send => {
                let matched = self.matched_by(count);
                self.matcher.make_room(count)?;
                cx.schedule.make_room(matched)?;
            }
            Direction::Receive => self.eager.make_room(count)?,
        }
        self.make_room_for_receives(direction, count)?;
        // The last one, since its room cannot be given back: it remembers which names were used.
        cx.operations.try_reserve(count)
    }

    /// Gives room back that nothing needs.
    pub(in super::super) fn give_room_back(&mut self, cx: &mut Conversation) {
        self.matcher.give_room_back();
        self.eager.give_room_back();
        self.receives.queued.give_room_back();
        cx.schedule.give_room_back();
    }

    /// Returns how many of `count` sends may find a receive at once.
    pub(in super::super) fn matched_by(&self, count: usize) -> usize {
        count.min(self.matcher.posted_receives())
    }

    /// Returns the most bytes of the frames that this many posts queue, those of the plans
    /// included.
    pub(in super::super) fn frame_bytes(
        &self,
        cx: &Conversation,
        direction: Direction,
        count: usize,
    ) -> usize {
        match direction {
            Direction::Send => {
                let answers = self.matched_by(count).saturating_mul(ANSWER_FRAME_BYTES);
                let on_link = EAGER_FRAME_BYTES + cx.link.terms.longest() as usize;
                answers.saturating_add(on_link * count.min(FEW))
            }
            Direction::Receive => count.saturating_mul(READY_FRAME_BYTES),
        }
    }
}
