//! The receiver's part in plans: what a match of the peer comes to, or a section of a long message.
//! Pure.

use super::super::action::Violation;
use super::super::conversation::Conversation;
use super::super::operation::OpState;
use super::Tags;
use super::receives::Receives;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::types::{Direction, OpKey};

impl Tags {
    /// Receives of ours were matched: one, or several that share a chunk.
    pub(in super::super) fn handle_match(
        &mut self,
        cx: &mut Conversation,
        first_channel: u16,
        chunk_bytes: u32,
        recvs: &[u64],
    ) -> Result<(), Violation> {
        cx.life.check_cut(chunk_bytes)?;
        let (members, bytes) = self.match_receives(cx, chunk_bytes, recvs)?;
        cx.life.check_channel(first_channel, bytes)?;
        cx.messages.received += recvs.len() as u64;
        let gathered = None;
        let plan = ChunkPlan { members, offset: 0, bytes, chunk_bytes, first_channel, gathered };
        match self.carry_out(cx, plan) {
            Some(plan) => cx.deferral.receive_chunks(plan, &mut cx.actions),
            None => Ok(()),
        }
    }

    /// The receives of a match, if they may share a chunk, and their bytes.
    fn match_receives(
        &mut self,
        cx: &mut Conversation,
        chunk_bytes: u32,
        recvs: &[u64],
    ) -> Result<(Members, u64), Violation> {
        let [first, behind @ ..] = recvs else { return Err(Violation::EmptyMatch) };
        let first = self.match_receive(cx, *first)?;
        let mut receives = Receives::new(first.span, first.bytes);
        if behind.is_empty() {
            return Ok((Members::One(first), first.bytes));
        }
        let mut members = cx.spare.take();
        members.reserve(recvs.len());
        members.push(first);
        for recv in behind {
            let member = self.match_receive(cx, *recv)?;
            if !receives.join(member.span, member.bytes, chunk_bytes) {
                return Err(Violation::CannotShare { recv: *recv });
            }
            members.push(member);
        }
        Ok((Members::Many(members), receives.bytes))
    }

    /// A receive of ours has found its send, and all of it is dealt.
    #[inline]
    fn match_receive(&mut self, cx: &mut Conversation, recv: u64) -> Result<Member, Violation> {
        let op = OpKey::from_wire(recv);
        let Some((_, bytes)) = self.own_receive(cx, recv) else {
            return Err(Violation::UnknownReceive { recv });
        };
        self.begin_receive(cx, op, bytes).ok_or(Violation::UnknownReceive { recv })
    }

    /// The next section of a long message is dealt; the first one is the match of its receive.
    pub(in super::super) fn handle_section(
        &mut self,
        cx: &mut Conversation,
        recv: u64,
        first_channel: u16,
        (offset, bytes): (u64, u64),
        chunk_bytes: u32,
    ) -> Result<(), Violation> {
        let most = cx.life.agreement.chunk_bytes;
        if chunk_bytes != most {
            return Err(Violation::ChunkBytes { chunk_bytes, most });
        }
        let members = Members::One(self.section_of(cx, recv, offset, bytes)?);
        cx.messages.received += u64::from(offset == 0);
        let gathered = None;
        let plan = ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered };
        cx.deferral.receive_chunks(plan, &mut cx.actions)
    }

    /// The receive that goes on with this section: right behind what was dealt of it, and in whole
    /// chunks but for its end.
    fn section_of(
        &mut self,
        cx: &mut Conversation,
        recv: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<Member, Violation> {
        let chunk_bytes = u64::from(cx.life.agreement.chunk_bytes);
        let op = OpKey::from_wire(recv);
        let unknown = Violation::UnknownReceive { recv };
        let Some(operation) = cx.operations.get_mut(op) else { return Err(unknown) };
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
            return self.begin_receive(cx, op, bytes).ok_or(unknown);
        }
        if let OpState::Matched { bytes_dealt, .. } = &mut operation.state {
            *bytes_dealt += bytes;
        }
        Ok(operation.member(op))
    }
}
