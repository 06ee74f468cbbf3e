//! Posts: how sends and receives find each other, and how they end.
//!
//! Room for a batch of posts, made before any of them is posted: a program chooses how many they
//! are, and where memory runs out all of them are refused.
//!
//! The sender's part in plans: what of the matched messages is dealt next.

use std::collections::TryReserveError;

use super::action::{Action, Outcome};
use super::channels::ChannelStaging;
use super::coalescer::{MatchedSend, Waiting};
use super::matcher::{Announced, PostedSend};
use super::operation::{Links, NewOperation, OpState, PostedOperation, link_behind};
use super::room::MAX_ANNOUNCED;
use super::route::{FEW, Load, Message, Route, route};
use super::schedule::{Section, Turn};
use super::stage::Stage;
use super::tag_queues::Place;
use super::{PeerProtocol, SPARE_MEMBERS};
use crate::frames::frame::{ANNOUNCE_FRAME_BYTES, ANSWER_FRAME_BYTES, EAGER_FRAME_BYTES, Frame};
use crate::plans::plan::{ChunkPlan, Member, Members, chunk_count};
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
        self.schedule.push(MatchedSend { member, announced });
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
                    self.schedule.sent(cost(message_bytes), cost(bytes));
                }
                Direction::Receive => self.list_arrived(op, bytes),
            }
            return self.listed_moved(op);
        }
        if direction == Direction::Send {
            self.schedule.sent(message_bytes, bytes);
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

/// Operations that are posted between two polls of what they have queued: a bound on that queue.
pub const PORTION: usize = 1024;
/// Most actions that one post queues at once: a receive takes what is kept, says so, and ends.
const ACTIONS: usize = 3;

impl PeerProtocol {
    /// Makes room for operations that are posted next, [`PORTION`] at a time. Posting them
    /// allocates nothing then, until what was matched is planned.
    pub fn make_room(&mut self, direction: Direction, count: usize) -> Result<(), TryReserveError> {
        self.actions.try_reserve(ACTIONS * count.min(PORTION))?;
        match direction {
            Direction::Send => {
                let matched = self.matched_by(count);
                self.matcher.make_room(count)?;
                self.schedule.make_room(matched)?;
            }
            Direction::Receive => self.eager.make_room(count)?,
        }
        self.make_room_to_announce(direction, count)?;
        // The last one, since its room cannot be given back: it remembers which names were used.
        self.operations.try_reserve(count)
    }

    /// Gives room back that nothing needs.
    pub fn give_room_back(&mut self) {
        self.matcher.give_room_back();
        self.eager.give_room_back();
        self.announcing.unannounced.give_room_back();
        self.schedule.give_room_back();
    }

    /// How many of so many sends may find a receive at once.
    pub fn matched_by(&self, count: usize) -> usize {
        count.min(self.matcher.announced())
    }

    /// Most bytes of the frames that so many posts queue, those of the plans included.
    pub fn frame_bytes(&self, direction: Direction, count: usize) -> usize {
        match direction {
            Direction::Send => {
                let answers = self.matched_by(count).saturating_mul(ANSWER_FRAME_BYTES);
                let on_link = EAGER_FRAME_BYTES + self.eager.most_bytes();
                answers.saturating_add(on_link * count.min(FEW))
            }
            Direction::Receive => count.saturating_mul(ANNOUNCE_FRAME_BYTES),
        }
    }
}

impl PeerProtocol {
    /// Makes the next plan of what was matched, and queues what it takes. Returns an action that
    /// must be answered first, if there is one.
    pub(super) fn plan_next(&mut self) -> Option<Action> {
        let (turn, first) = loop {
            let turn = self.schedule.turn()?;
            if turn != Turn::Short && self.schedule.is_quiet() {
                // Sockets and threads that were used a moment ago are faster than those that rest.
                self.next_channel = 0;
            }
            let first = *self.schedule.queue(turn).front()?;
            match first {
                Waiting::Listed(op) if self.is_dealt(op) => {
                    return if self.has_channels() { self.deal_listed(op, turn) } else { None };
                }
                // It was given up.
                Waiting::Listed(_) => self.schedule.queue(turn).pop(),
                Waiting::Send(matched) => break (turn, matched),
            }
        };
        match turn {
            Turn::Long if !self.has_channels() => None,
            Turn::Long => {
                let section = self.schedule.take_section()?;
                self.deal_section(section);
                None
            }
            Turn::Short | Turn::Medium => self.plan_messages(turn, first),
        }
    }

    /// Makes a plan of a message, or of several that share a chunk with it.
    fn plan_messages(&mut self, turn: Turn, first: MatchedSend) -> Option<Action> {
        let tuning = self.schedule.tuning;
        let messages = self.schedule.queue(turn);
        let mut portion = messages.next(&tuning)?;
        let load = Load { link_room: self.eager.link_room, on_link: 0 };
        let message = Message::Tagged { bytes: first.member.bytes, together: messages.came() };
        let memory = first.member.span.memory;
        let peer_reaches = self.eager.terms.peer_reaches(first.announced.delivery);
        let chunk_bytes =
            match route((&tuning, &self.eager.terms), load, message, memory, peer_reaches) {
                Route::Channels { chunk_bytes } => chunk_bytes,
                // It shares a chunk.
                _ if portion.messages > 1 => tuning.chunk_bytes,
                Route::Inline | Route::Link => {
                    let bytes = portion.bytes;
                    messages.take(portion, Vec::new());
                    self.schedule.dealt(turn, bytes);
                    self.schedule.sent(bytes, bytes);
                    self.deliver(&first.member, first.announced.recv);
                    return None;
                }
            };
        if portion.bytes > 0 && !self.has_channels() {
            return None;
        }
        let messages = self.schedule.queue(turn);
        let channel = self.next_channel;
        if let Some(memory) = portion.gathered {
            match self.staging.of(channel, memory) {
                ChannelStaging::There => {}
                ChannelStaging::Asked => return None,
                ChannelStaging::Unasked => {
                    self.staging.ask(channel, memory);
                    return Some(Action::PrepareStaging { channel, memory });
                }
                ChannelStaging::Refused => portion = messages.next_in_place(&tuning)?,
            }
        }
        let spare = if portion.messages == 1 { Vec::new() } else { self.take_spare() };
        let (members, names) = self.schedule.queue(turn).take(portion, spare)?;
        let bytes = portion.bytes;
        self.schedule.dealt(turn, bytes);
        let first_channel = self.take_channels(bytes, chunk_bytes);
        let frame = Frame::Match { first_channel, chunk_bytes, recvs: names };
        self.actions.push_back(Action::Send(frame));
        let gathered = portion.gathered;
        let plan = ChunkPlan { members, offset: 0, bytes, chunk_bytes, first_channel, gathered };
        self.carry_out(plan, |protocol, plan| {
            protocol.actions.push_back(Action::SendChunks(plan));
        });
        None
    }

    fn deal_section(&mut self, section: Section) {
        let Section { matched, offset, bytes } = section;
        // There is enough of it for everybody to work on.
        let chunk_bytes = self.agreement.chunk_bytes;
        let first_channel = self.take_channels(bytes, chunk_bytes);
        let recv = matched.announced.recv;
        self.actions.push_back(Action::Send(Frame::Section {
            recv,
            first_channel,
            offset,
            bytes,
            chunk_bytes,
        }));
        let members = Members::One(matched.member);
        let gathered = None;
        let plan = ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered };
        self.actions.push_back(Action::SendChunks(plan));
    }

    /// The channel of the first of so many bytes; what is dealt next begins behind their last.
    pub(super) fn take_channels(&mut self, bytes: u64, chunk_bytes: u32) -> u16 {
        let channel = self.next_channel;
        let chunks = chunk_count(bytes, chunk_bytes);
        let channels = u64::from(self.agreement.channels);
        self.next_channel = ((u64::from(channel) + chunks) % channels) as u16;
        channel
    }

    /// An empty list, with room if some is left.
    pub(super) fn take_spare(&mut self) -> Vec<Member> {
        let spare = self.spare.pop().unwrap_or_default();
        self.spare_members -= spare.capacity();
        spare
    }

    /// Queues a plan's chunks. A message of 0 bytes has none and is done.
    pub(super) fn carry_out(&mut self, plan: ChunkPlan, queue: fn(&mut Self, ChunkPlan)) {
        match (&plan.members, plan.bytes) {
            (Members::One(member), 0) => self.complete(member.op, Outcome::Done),
            _ => queue(self, plan),
        }
    }
}
