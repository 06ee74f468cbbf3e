//! Posts, withdrawals and matches: how sends and receives find each other, and what becomes of them
//! then.

use super::action::{Action, Outcome, Violation};
use super::coalescer::MatchedSend;
use super::matcher::{Announced, PostedSend};
use super::op_list::link_behind;
use super::operation::{Links, NewOperation, OpState, Operation};
use super::receives::{MessageEnd, Receives};
use super::stage::Stage;
use super::staging_channels::ChannelStaging;
use super::{MAX_ANNOUNCED, PeerProtocol, SPARE_MEMBERS};
use crate::control::frame::Frame;
use crate::transfer::plan::{ChunkPlan, Member, Members};
use crate::transfer::stripe::chunk_count;
use crate::transfer::stripe_queue::Finished;
use crate::types::{Direction, OpKey};

/// Why operations cannot be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The peer is not up.
    NotUp,
    /// [`MAX_ANNOUNCED`] receives without a counterpart are the most there can be.
    TooManyReceives,
}

impl PeerProtocol {
    /// Whether so many operations may be posted now.
    pub(crate) fn check_posts(&self, direction: Direction, count: usize) -> Result<(), PostError> {
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
    pub(crate) fn handle_batch(&mut self, is_open: bool) {
        self.is_batch_open = is_open;
    }

    /// The program posts an operation, which [`check_posts`](Self::check_posts) allows. It ends
    /// with exactly one [`Action::Complete`], or is handed out by
    /// [`take_operations`](Self::take_operations).
    #[inline]
    pub(crate) fn handle_post(&mut self, posted: NewOperation) -> OpKey {
        let NewOperation { transfer, direction, tag, span, bytes } = posted;
        match direction {
            Direction::Send => self.post_send(posted),
            Direction::Receive => {
                if let Some(op) = self.take_kept(&posted) {
                    return op;
                }
                let mut links = Links::default();
                let op = self.operations.insert_with_key(|op| {
                    links = self.backlogs.begin_to_wait(transfer, op);
                    let place = self.eager.await_message(tag, op);
                    Operation { posted, state: OpState::Announced, links, place }
                });
                link_behind(links, op, &mut self.operations);
                self.waiting_receives += 1;
                let delivery = MessageEnd::delivery(self.last_announced.as_ref(), &span);
                self.last_announced = Some(MessageEnd::new(span, bytes));
                let frame = Frame::Announce { recv: op.to_wire(), tag, bytes, delivery };
                self.actions.push_back(Action::Send(frame));
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
        let chunks_left = chunk_count(send_bytes, self.agreement.chunk_bytes);
        let member = operation.member(send);
        let before = std::mem::replace(&mut operation.state, OpState::Matched { chunks_left });
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
        self.coalescer.push(MatchedSend { member, announced });
    }

    /// Makes the next plan of what was matched, and queues what it takes. Returns an action that
    /// must be answered first, if there is one.
    pub(super) fn plan_next(&mut self) -> Option<Action> {
        let mut portion = self.coalescer.next(&self.limits)?;
        if self.coalescer.is_alone(portion)
            && let Some(matched) = self.coalescer.front().copied()
            && self.is_delivered(&matched)
        {
            self.coalescer.take(portion, Vec::new());
            self.deliver(&matched.member, matched.announced.recv);
            return None;
        }
        let channel = self.next_channel;
        if let Some(memory) = portion.gathered {
            match self.staging.of(channel, memory) {
                ChannelStaging::There => {}
                ChannelStaging::Asked => return None,
                ChannelStaging::Unasked => {
                    self.staging.ask(channel, memory);
                    return Some(Action::PrepareStaging { channel, memory });
                }
                ChannelStaging::Refused => {
                    portion = self.coalescer.next_in_place(&self.limits)?;
                }
            }
        }
        let spare = if portion.messages == 1 { Vec::new() } else { self.take_spare() };
        let (members, names) = self.coalescer.take(portion, spare)?;
        let bytes = portion.bytes;
        let chunks = chunk_count(bytes, self.agreement.chunk_bytes);
        let channels = u64::from(self.agreement.channels);
        self.next_channel = ((u64::from(channel) + chunks) % channels) as u16;
        let frame = Frame::Match { first_channel: channel, recvs: names };
        self.actions.push_back(Action::Send(frame));
        let gathered = portion.gathered;
        let plan = ChunkPlan { members, bytes, first_channel: channel, gathered };
        self.carry_out(plan, Action::SendChunks);
        None
    }

    /// An empty list, with room if some is left.
    fn take_spare(&mut self) -> Vec<Member> {
        let spare = self.spare.pop().unwrap_or_default();
        self.spare_members -= spare.capacity();
        spare
    }

    /// Queues a plan's chunks. A message of 0 bytes has none and is done.
    fn carry_out(&mut self, plan: ChunkPlan, action: fn(ChunkPlan) -> Action) {
        match (&plan.members, plan.bytes) {
            (Members::One(member), 0) => self.complete(member.op, Outcome::Done),
            _ => self.actions.push_back(action(plan)),
        }
    }

    /// Receives of ours were matched: one, or several that share a chunk.
    pub(super) fn handle_match(&mut self, first_channel: u16, recvs: &[u64]) {
        let is_up = !matches!(self.stage, Stage::Connecting(_));
        if first_channel >= self.agreement.channels || !is_up {
            return self.broken(Violation::MatchChannel(first_channel));
        }
        match self.match_receives(recvs) {
            Ok((members, bytes)) => {
                self.messages.received += recvs.len() as u64;
                let plan = ChunkPlan { members, bytes, first_channel, gathered: None };
                self.carry_out(plan, Action::ReceiveChunks);
            }
            Err(violation) => self.broken(violation),
        }
    }

    /// The receives of a match, if they may share a chunk, and their bytes.
    fn match_receives(&mut self, recvs: &[u64]) -> Result<(Members, u64), Violation> {
        let [first, behind @ ..] = recvs else { return Err(Violation::EmptyMatch) };
        let first = self.match_receive(*first)?;
        let mut receives = Receives::new(first.span, first.bytes);
        if behind.is_empty() {
            return Ok((Members::One(first), first.bytes));
        }
        let mut members = self.take_spare();
        members.push(first);
        for recv in behind {
            let member = self.match_receive(*recv)?;
            if !receives.join(member.span, member.bytes, self.agreement.chunk_bytes) {
                return Err(Violation::CannotShare { recv: *recv });
            }
            members.push(member);
        }
        Ok((Members::Many(members), receives.bytes))
    }

    /// A receive of ours has found its send.
    #[inline]
    fn match_receive(&mut self, recv: u64) -> Result<Member, Violation> {
        let unknown = Violation::UnknownReceive { recv };
        let op = OpKey::from_wire(recv);
        let Some(operation) = self.operations.get_mut(op) else { return Err(unknown) };
        if !operation.is_waiting_receive() {
            return Err(unknown);
        }
        let (member, links) = (operation.member(op), operation.links);
        self.eager.waits_no_more(operation.place);
        let chunks_left = chunk_count(member.bytes, self.agreement.chunk_bytes);
        let before = std::mem::replace(&mut operation.state, OpState::Matched { chunks_left });
        self.leave_list(op, member.transfer, before, links);
        self.waiting_receives -= 1;
        Ok(member)
    }

    /// Chunks were sent, or received and unpacked.
    #[inline]
    pub(crate) fn handle_finished(&mut self, finished: Finished) {
        match finished {
            Finished::Parts { op, chunks, .. } => self.chunks_done(op, chunks),
            Finished::Together(mut members) => {
                members.drain(..).for_each(|member| self.chunks_done(member.op, 1));
                if self.spare_members + members.capacity() <= SPARE_MEMBERS {
                    self.spare_members += members.capacity();
                    self.spare.push(members);
                }
            }
        }
    }

    fn chunks_done(&mut self, op: OpKey, chunks: u64) {
        let Some(operation) = self.operations.get_mut(op) else { return };
        let OpState::Matched { chunks_left } = &mut operation.state else { return };
        *chunks_left = chunks_left.saturating_sub(chunks);
        if *chunks_left == 0
            && let Some(operation) = self.operations.remove(op)
        {
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
