//! The receiver's part in plans: what chunks of the peer come to. Pure.

use super::super::action::Violation;
use super::super::conversation::Conversation;
use super::super::operation::OpState;
use super::Tags;
use super::receives::Receives;
use crate::frames::messages::Chunks;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::types::{Direction, OpKey};

impl Tags {
    /// Chunks follow: of one receive of ours, or of several that share one.
    pub(in super::super) fn handle_chunks(
        &mut self,
        cx: &mut Conversation,
        chunks: &Chunks,
    ) -> Result<(), Violation> {
        let Chunks { recvs, first_channel, chunk_bytes, offset, bytes } = chunks;
        let (first_channel, chunk_bytes) = (*first_channel, *chunk_bytes);
        let (offset, bytes) = (*offset, *bytes);
        let members = match recvs[..] {
            [recv] => Members::One(self.section_of(cx, recv, (offset, bytes), chunk_bytes)?),
            _ => self.match_receives(cx, chunks)?,
        };
        cx.messages.received += if offset == 0 { recvs.len() as u64 } else { 0 };
        let gathered = None;
        let plan = ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered };
        match self.carry_out(cx, plan) {
            Some(plan) => cx.deferral.receive_chunks(plan, &mut cx.actions),
            None => Ok(()),
        }
    }

    /// The receives of a chunk, if they may share it and fill it.
    fn match_receives(
        &mut self,
        cx: &mut Conversation,
        chunks: &Chunks,
    ) -> Result<Members, Violation> {
        let [first, behind @ ..] = &chunks.recvs[..] else { return Err(Violation::EmptyMatch) };
        let recv = *first;
        let first = self.match_receive(cx, recv)?;
        let mut receives = Receives::new(first.span, first.bytes);
        let mut members = cx.spare.take();
        members.reserve(chunks.recvs.len());
        members.push(first);
        for recv in behind {
            let member = self.match_receive(cx, *recv)?;
            if !receives.join(member.span, member.bytes, chunks.chunk_bytes) {
                return Err(Violation::CannotShare { recv: *recv });
            }
            members.push(member);
        }
        let (offset, bytes, message_bytes) = (chunks.offset, chunks.bytes, receives.bytes);
        if (offset, bytes) != (0, message_bytes) {
            return Err(Violation::Section { recv, offset, bytes, dealt: 0, message_bytes });
        }
        Ok(Members::Many(members))
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

    /// The receive that begins, or goes on, with this section: right behind what was dealt of it,
    /// and in whole chunks but for its end.
    #[inline]
    fn section_of(
        &mut self,
        cx: &mut Conversation,
        recv: u64,
        (offset, bytes): (u64, u64),
        chunk_bytes: u32,
    ) -> Result<Member, Violation> {
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
        let is_whole = bytes == left || bytes.is_multiple_of(chunk_bytes.into());
        let is_some = bytes > 0 || (is_new && left == 0);
        if offset != dealt || !is_some || bytes > left || !is_whole {
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
