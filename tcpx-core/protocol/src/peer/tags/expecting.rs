//! Chunks that several receives share, from the word of the peer to their plan. Pure.

use super::super::conversation::Conversation;
use super::super::violation::Violation;
use super::Tags;
use super::receives::Receives;
use crate::frames::messages::Chunks;
use crate::plans::plan::{ChunkPlan, Member, Members};
use crate::types::OpKey;

impl Tags {
    /// Expects a chunk that several receives of ours share.
    pub(in super::super) fn share_chunk(
        &mut self,
        cx: &mut Conversation,
        chunks: &Chunks,
    ) -> Result<(), Violation> {
        let members = self.match_receives(cx, chunks)?;
        let Chunks { recvs, first_channel, chunk_bytes, offset, bytes } = chunks;
        let (first_channel, chunk_bytes) = (*first_channel, *chunk_bytes);
        let (offset, bytes, gathered) = (*offset, *bytes, None);
        cx.messages.received += recvs.len() as u64;
        let channels = cx.losses.receives;
        let plan =
            ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, channels, gathered };
        cx.deferral.receive_chunks(plan, &mut cx.actions)
    }

    /// Returns the receives of a chunk, if they may share it and fill it.
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
            return Err(Violation::Section { recv, offset, bytes, scheduled: 0, message_bytes });
        }
        Ok(Members::Many(members))
    }

    /// Matches a receive of ours that has found its send and is fully scheduled.
    #[inline]
    fn match_receive(&mut self, cx: &mut Conversation, recv: u64) -> Result<Member, Violation> {
        let op = OpKey::from_wire(recv);
        let Some((_, bytes)) = self.own_receive(cx, recv) else {
            return Err(Violation::UnknownReceive { recv });
        };
        self.begin_receive(cx, op, bytes).ok_or(Violation::UnknownReceive { recv })
    }
}
