//! Posts: how sends and receives find each other, and how they end.

use super::action::{Action, Outcome};
use super::announcements::MAX_ANNOUNCED;
use super::coalescer::MatchedSend;
use super::matcher::{Announced, PostedSend};
use super::op_list::link_behind;
use super::operation::{Links, NewOperation, OpState, PostedOperation};
use super::stage::Stage;
use super::tag_queues::Place;
use super::{PeerProtocol, SPARE_MEMBERS};
use crate::frames::frame::Frame;
use crate::plans::stripe_queue::Finished;
use crate::types::{Direction, OpKey};

/// Why operations cannot be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The peer is not up.
    NotUp,
    /// `MAX_ANNOUNCED` receives without a counterpart are the most there can be.
    TooManyReceives,
}

impl PeerProtocol {
    /// Whether so many operations may be posted now.
    pub fn check_posts(&self, direction: Direction, count: usize) -> Result<(), PostError> {
        if !matches!(self.stage, Stage::Up { .. }) {
            return Err(PostError::NotUp);
        }
        // The peer counts the same ones, or fewer: a match or an answered cancel reaches it first.
        let waiting = self.waiting_receives.saturating_add(count);
        if direction == Direction::Receive && waiting > MAX_ANNOUNCED {
            return Err(PostError::TooManyReceives);
        }
        Ok(())
    }

    /// Whether the posts that come next are some of a batch: nothing is planned until it is whole.
    pub fn handle_batch(&mut self, is_open: bool) {
        self.is_batch_open = is_open;
    }

    /// The program posts an operation, which [`check_posts`](Self::check_posts) allows. It ends
    /// with exactly one [`Action::Complete`], or is handed out by
    /// [`take_operations`](Self::take_operations).
    #[inline]
    pub fn handle_post(&mut self, posted: NewOperation) -> OpKey {
        let NewOperation { transfer, direction, tag, .. } = posted;
        match direction {
            Direction::Send => self.post_send(posted),
            Direction::Receive => {
                if let Some(op) = self.take_kept(&posted) {
                    return op;
                }
                let mut links = Links::default();
                let is_next = self.announcing.is_next();
                let op = self.operations.insert_with_key(|op| {
                    links = self.backlogs.begin_to_wait(transfer, op);
                    let state = OpState::Unannounced;
                    let place = match is_next {
                        true => Place::default(),
                        false => self.announcing.unannounced.push(tag, op),
                    };
                    PostedOperation { posted, state, links, place }
                });
                link_behind(links, op, &mut self.operations);
                self.waiting_receives += 1;
                if is_next {
                    self.announce(op);
                }
                op
            }
        }
    }

    fn post_send(&mut self, posted: NewOperation) -> OpKey {
        if self.goes_ahead(&posted) {
            return self.go_ahead(posted);
        }
        // It is matched unless it turns out that it waits.
        let op = self.insert_matched(posted);
        match self.matcher.post_send(posted.tag, op) {
            PostedSend::Waits(place) => {
                let links = self.backlogs.begin_to_wait(posted.transfer, op);
                let operation = &mut self.operations[op];
                (operation.state, operation.links) = (OpState::SendWaits, links);
                operation.place = place;
                link_behind(links, op, &mut self.operations);
            }
            PostedSend::Matched(announced) => self.meet(op, announced),
        }
        op
    }

    /// A send of ours found its receive.
    pub(super) fn meet(&mut self, send: OpKey, announced: Announced) {
        let Some(operation) = self.operations.get_mut(send) else { return };
        let (send_bytes, recv_bytes) = (operation.posted.bytes, announced.bytes);
        let member = operation.member(send);
        let matched = OpState::Matched { bytes_left: send_bytes, bytes_dealt: 0 };
        let before = std::mem::replace(&mut operation.state, matched);
        if before == OpState::SendWaits {
            let links = operation.links;
            self.leave_list(send, member.transfer, before, links);
        }
        if send_bytes != recv_bytes {
            let frame = Frame::Mismatch { recv: announced.recv, send_bytes };
            self.actions.push_back(Action::Send(frame));
            return self.complete(send, Outcome::SizeMismatch { send_bytes, recv_bytes });
        }
        self.messages.sent += 1;
        self.dealing.push(MatchedSend { member, announced });
    }

    /// Chunks were sent, or received and unpacked.
    #[inline]
    pub fn handle_finished(&mut self, finished: Finished) {
        match finished {
            Finished::Parts { op, bytes, .. } => self.bytes_done(op, bytes),
            Finished::Together(mut members) => {
                members.drain(..).for_each(|member| self.bytes_done(member.op, member.bytes));
                if self.spare_members + members.capacity() <= SPARE_MEMBERS {
                    self.spare_members += members.capacity();
                    self.spare.push(members);
                }
            }
        }
        self.plan_waiting();
    }

    fn bytes_done(&mut self, op: OpKey, bytes: u64) {
        let Some(operation) = self.operations.get_mut(op) else { return };
        let OpState::Matched { bytes_left, .. } = &mut operation.state else { return };
        *bytes_left = bytes_left.saturating_sub(bytes);
        let (direction, message_bytes) = (operation.posted.direction, operation.posted.bytes);
        let is_over = *bytes_left == 0;
        if let Some(listed) = self.one_sided.listed.get(op) {
            match direction {
                Direction::Send => {
                    let cost = |bytes| listed.pieces.cost(bytes);
                    self.dealing.sent(cost(message_bytes), cost(bytes));
                }
                Direction::Receive => self.list_arrived(op, bytes),
            }
            return self.listed_moved(op);
        }
        if direction == Direction::Send {
            self.dealing.sent(message_bytes, bytes);
        }
        if is_over && let Some(operation) = self.operations.remove(op) {
            self.completed(&operation, Outcome::Done);
        }
    }

    /// A receive of ours that the peer names, as long as it waits for a match, and its bytes.
    pub(super) fn own_receive(&self, recv: u64) -> Option<(OpKey, u64)> {
        let op = OpKey::from_wire(recv);
        let operation = self.operations.get(op)?;
        operation.is_waiting_receive().then_some((op, operation.posted.bytes))
    }
}
