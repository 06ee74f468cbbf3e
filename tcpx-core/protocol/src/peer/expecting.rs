//! The receiver's part in plans: what a match of the peer comes to, or a section of a long message.
//!
//! Receives that the peer has dealt and that are not planned yet.
//!
//! A section of a list of short pieces is one frame, and a plan of it names every piece. So a peer
//! that says sections and does not send their chunks could have this end make any amount of plans.
//! While much is under way, what the peer deals waits here as it was said, in order: plans are made
//! as chunks arrive. Pure.

use std::sync::Arc;

use super::PeerProtocol;
use super::action::{Action, Violation};
use super::operation::OpState;
use super::receives::{Dealt, Receives};
use super::tuning::shortest_chunk;
use crate::plans::piece_cursor::{ListedSection, PieceCursor};
use crate::plans::pieces::Pieces;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// Receives of ours were matched: one, or several that share a chunk.
    pub(super) fn handle_match(&mut self, first_channel: u16, chunk_bytes: u32, recvs: &[u64]) {
        if !self.may_cut(chunk_bytes) {
            let most = self.agreement.chunk_bytes;
            return self.broken(Violation::ChunkBytes { chunk_bytes, most });
        }
        match self.match_receives(chunk_bytes, recvs) {
            // What has no bytes needs no channel.
            Ok((_, bytes)) if !self.may_use(first_channel, bytes) => {
                self.broken(Violation::MatchChannel(first_channel));
            }
            Ok((members, bytes)) => {
                self.messages.received += recvs.len() as u64;
                let gathered = None;
                let plan =
                    ChunkPlan { members, offset: 0, bytes, chunk_bytes, first_channel, gathered };
                self.carry_out(plan, Self::receive_chunks);
            }
            Err(violation) => self.broken(violation),
        }
    }

    /// The receives of a match, if they may share a chunk, and their bytes.
    fn match_receives(
        &mut self,
        chunk_bytes: u32,
        recvs: &[u64],
    ) -> Result<(Members, u64), Violation> {
        let [first, behind @ ..] = recvs else { return Err(Violation::EmptyMatch) };
        let first = self.match_receive(*first)?;
        let mut receives = Receives::new(first.span, first.bytes);
        if behind.is_empty() {
            return Ok((Members::One(first), first.bytes));
        }
        let mut members = self.take_spare();
        members.reserve(recvs.len());
        members.push(first);
        for recv in behind {
            let member = self.match_receive(*recv)?;
            if !receives.join(member.span, member.bytes, chunk_bytes) {
                return Err(Violation::CannotShare { recv: *recv });
            }
            members.push(member);
        }
        Ok((Members::Many(members), receives.bytes))
    }

    /// A receive of ours has found its send, and all of it is dealt.
    #[inline]
    fn match_receive(&mut self, recv: u64) -> Result<Member, Violation> {
        let op = OpKey::from_wire(recv);
        let Some((_, bytes)) = self.own_receive(recv) else {
            return Err(Violation::UnknownReceive { recv });
        };
        self.begin_receive(op, bytes).ok_or(Violation::UnknownReceive { recv })
    }

    /// The next section of a long message is dealt; the first one is the match of its receive.
    pub(super) fn handle_section(
        &mut self,
        recv: u64,
        first_channel: u16,
        offset: u64,
        bytes: u64,
        chunk_bytes: u32,
    ) {
        if !self.may_use(first_channel, bytes) {
            return self.broken(Violation::MatchChannel(first_channel));
        }
        let most = self.agreement.chunk_bytes;
        if self.may_cut(chunk_bytes) {
            let op = OpKey::from_wire(recv);
            match self.handle_listed_section(op, offset, bytes, chunk_bytes, first_channel) {
                Ok(true) => return,
                Ok(false) => {}
                Err(violation) => return self.broken(violation),
            }
        }
        if chunk_bytes != most {
            return self.broken(Violation::ChunkBytes { chunk_bytes, most });
        }
        match self.section_of(recv, offset, bytes) {
            Ok(member) => {
                self.messages.received += u64::from(offset == 0);
                let members = Members::One(member);
                let gathered = None;
                let plan =
                    ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered };
                self.receive_chunks(plan);
            }
            Err(violation) => self.broken(violation),
        }
    }

    /// The receive that goes on with this section: right behind what was dealt of it, and in whole
    /// chunks but for its end.
    fn section_of(&mut self, recv: u64, offset: u64, bytes: u64) -> Result<Member, Violation> {
        let chunk_bytes = u64::from(self.agreement.chunk_bytes);
        let op = OpKey::from_wire(recv);
        let unknown = Violation::UnknownReceive { recv };
        let Some(operation) = self.operations.get_mut(op) else { return Err(unknown) };
        let message_bytes = operation.posted.bytes;
        let (dealt, is_new) = match operation.state {
            OpState::Announced | OpState::Cancelling(_) => (0, true),
            OpState::Matched { bytes_dealt, .. }
                if operation.posted.direction == Direction::Receive =>
            {
                (bytes_dealt, false)
            }
            OpState::SendWaits
            | OpState::Unannounced
            | OpState::Asked
            | OpState::Matched { .. } => return Err(unknown),
        };
        let left = message_bytes.saturating_sub(dealt);
        let is_whole = bytes == left || bytes.is_multiple_of(chunk_bytes);
        if offset != dealt || bytes == 0 || bytes > left || !is_whole {
            return Err(Violation::Section { recv, offset, bytes, dealt, message_bytes });
        }
        if is_new {
            return self.begin_receive(op, bytes).ok_or(unknown);
        }
        if let OpState::Matched { bytes_dealt, .. } = &mut operation.state {
            *bytes_dealt += bytes;
        }
        Ok(operation.member(op))
    }

    /// A receive of ours, which waits, has found its send; so many bytes of it are dealt.
    #[inline]
    fn begin_receive(&mut self, op: OpKey, bytes_dealt: u64) -> Option<Member> {
        let operation = self.operations.get_mut(op)?;
        let (member, links) = (operation.member(op), operation.links);
        self.eager.waits_no_more(operation.place);
        let matched = OpState::Matched { bytes_left: member.bytes, bytes_dealt };
        let before = std::mem::replace(&mut operation.state, matched);
        self.leave_list(op, member.transfer, before, links);
        self.waiting_receives -= 1;
        Some(member)
    }

    /// Whether chunks may have so many bytes.
    fn may_cut(&self, chunk_bytes: u32) -> bool {
        let most = self.agreement.chunk_bytes;
        (shortest_chunk(most)..=most).contains(&chunk_bytes)
    }

    /// Whether so many bytes may come, from this channel on.
    fn may_use(&self, channel: u16, bytes: u64) -> bool {
        channel < self.agreement.channels && (bytes == 0 || self.are_channels_open())
    }
}

/// Most receives that wait. At worst a correct peer deals each pair of a list by itself; it has few
/// pairs of short lists, [`MAX_ASKED`](super::one_sided::MAX_ASKED) of which are under way, and
/// deals no more of long ones than it may have under way.
const MOST_WAITING: usize = 1 << 21;

impl PeerProtocol {
    /// The peer has dealt this.
    #[inline]
    pub(super) fn receive_chunks(&mut self, plan: ChunkPlan) {
        if self.deferral.waiting.is_empty() {
            return self.actions.push_back(Action::ReceiveChunks(plan));
        }
        self.defer(Dealt::Plan(plan));
    }

    /// The peer has dealt a section of a list, which begins at the cursor. That steps over it.
    pub(super) fn receive_section(
        &mut self,
        pieces: Arc<Pieces>,
        cursor: &mut PieceCursor,
        section: ListedSection,
    ) {
        if self.deferral.waiting.is_empty() && self.plans_more() {
            return self.plan_receive(&pieces, cursor, section);
        }
        let from = *cursor;
        cursor.skip(&pieces, section.bytes, usize::MAX);
        self.defer(Dealt::Section { pieces, cursor: from, section });
    }

    fn plans_more(&self) -> bool {
        self.deferral.planned < self.one_sided.terms.planned
    }

    fn defer(&mut self, dealt: Dealt) {
        if self.deferral.waiting.len() >= MOST_WAITING {
            return self.broken(Violation::TooManyDealt { limit: MOST_WAITING });
        }
        self.deferral.waiting.push_back(dealt);
    }

    fn plan_receive(&mut self, pieces: &Pieces, cursor: &mut PieceCursor, section: ListedSection) {
        let planned = self.deferral.planned.saturating_add(pieces.cost(section.bytes));
        self.deferral.planned = planned;
        self.make_plans(cursor, pieces, section, Action::ReceiveChunks);
    }

    /// So many bytes of a list have arrived.
    pub(super) fn list_arrived(&mut self, op: OpKey, bytes: u64) {
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        let cost = listed.pieces.cost(bytes);
        self.deferral.planned = self.deferral.planned.saturating_sub(cost);
    }

    /// Plans what waits, as far as there is room.
    #[inline]
    pub(super) fn plan_waiting(&mut self) {
        while self.plans_more()
            && let Some(dealt) = self.deferral.waiting.pop_front()
        {
            match dealt {
                Dealt::Plan(plan) => self.actions.push_back(Action::ReceiveChunks(plan)),
                Dealt::Section { pieces, mut cursor, section } => {
                    self.plan_receive(&pieces, &mut cursor, section);
                }
            }
        }
    }
}
