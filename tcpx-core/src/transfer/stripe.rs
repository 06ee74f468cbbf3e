//! How a plan is cut into chunks and dealt to channels. Pure; both ends compute the same.

use super::plan::{ChunkPlan, Member, Members};
use crate::types::MemoryType;

/// The chunks of a plan that travel on one channel, in order.
#[derive(Debug)]
pub(crate) struct Stripe {
    members: Members,
    /// The kind of memory in which they must be gathered, if they must.
    pub(crate) gathered: Option<MemoryType>,
    next_chunk: u64,
    step: u64,
    chunk_bytes: u64,
    plan_bytes: u64,
}

/// Which bytes of its plan a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRange {
    /// Byte offset in the plan.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// One chunk: a range of one message, or several small messages as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) members: Members,
    pub(crate) range: ChunkRange,
}

impl Stripe {
    /// The next chunk of this channel, without taking it, and the message that its first byte belongs to.
    pub(crate) fn peek(&self) -> Option<(ChunkRange, Member)> {
        let offset = self.next_chunk.checked_mul(self.chunk_bytes)?;
        let rest = self.plan_bytes.checked_sub(offset).filter(|rest| *rest > 0)?;
        // At most `chunk_bytes`, which came in as u32.
        let bytes = rest.min(self.chunk_bytes) as u32;
        Some((ChunkRange { offset, bytes }, *self.members.first()?))
    }

    /// Takes the chunk that `peek` shows.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        let (range, first) = self.peek()?;
        self.next_chunk += self.step;
        // Messages that share a chunk have no other: the stripe is over.
        let members = std::mem::replace(&mut self.members, Members::One(first));
        Some(Chunk { members, range })
    }
}

/// Chunks of a message of `message_bytes`; 0 for an empty one, which travels on the control link alone.
pub(crate) fn chunk_count(message_bytes: u64, chunk_bytes: u32) -> u64 {
    message_bytes.div_ceil(u64::from(chunk_bytes))
}

impl ChunkPlan {
    /// Deals the chunks round robin to `channels` channels. Yields (channel, stripe) for each channel that
    /// gets any. Several members fit one chunk together.
    pub(crate) fn stripes(
        self,
        chunk_bytes: u32,
        channels: u16,
    ) -> impl Iterator<Item = (u16, Stripe)> {
        let Self { members, bytes, first_channel, gathered } = self;
        let used = chunk_count(bytes, chunk_bytes).min(u64::from(channels)) as u16;
        let mut members = Some(members);
        (0..used).map_while(move |turn| {
            let members = match &members {
                Some(Members::One(member)) => Members::One(*member),
                _ => members.take()?,
            };
            let channel =
                ((u32::from(first_channel) + u32::from(turn)) % u32::from(channels)) as u16;
            let stripe = Stripe {
                members,
                gathered,
                next_chunk: u64::from(turn),
                step: u64::from(channels),
                chunk_bytes: u64::from(chunk_bytes),
                plan_bytes: bytes,
            };
            Some((channel, stripe))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{OpKey, RegistrationKey, Span, TransferKey};

    fn member(bytes: u64) -> Member {
        let (op, transfer) = (OpKey::default(), TransferKey::default());
        let registration = RegistrationKey::default();
        let span = Span { registration, address: 0, memory: MemoryType::Host };
        Member { op, transfer, span, bytes, tag: 0 }
    }

    fn plan(bytes: u64, first_channel: u16) -> ChunkPlan {
        ChunkPlan { members: Members::One(member(bytes)), bytes, first_channel, gathered: None }
    }

    proptest! {
        #[test]
        fn chunks_cover_the_message_once(
            bytes in 0u64..5_000_000,
            chunk_bytes in 1u32..600_000,
            channels in 1u16..9,
            first in 0u16..9,
        ) {
            prop_assume!(chunk_count(bytes, chunk_bytes) < 10_000);
            let first = first % channels;
            let mut chunks = Vec::new();
            for (channel, mut stripe) in plan(bytes, first).stripes(chunk_bytes, channels) {
                prop_assert!(channel < channels);
                let channels = u64::from(channels);
                let mut turn = (u64::from(channel) + channels - u64::from(first)) % channels;
                while let Some(Chunk { range, .. }) = stripe.take() {
                    prop_assert_eq!(range.offset, turn * u64::from(chunk_bytes), "round robin");
                    turn += channels;
                    chunks.push((range.offset, range.bytes));
                }
            }
            chunks.sort_unstable();
            prop_assert_eq!(chunks.len() as u64, chunk_count(bytes, chunk_bytes));
            let mut at = 0;
            for (offset, bytes) in chunks {
                prop_assert_eq!(offset, at);
                prop_assert!(bytes > 0 && bytes <= chunk_bytes);
                at += u64::from(bytes);
            }
            prop_assert_eq!(at, bytes);
        }
    }

    #[test]
    fn huge_messages_do_not_overflow() {
        let (_, mut last) = plan(u64::MAX, 0).stripes(4096, 1).next().unwrap();
        last.next_chunk = u64::MAX / 4096;
        assert_eq!(last.take().map(|chunk| chunk.range.bytes), Some(4095));
        assert_eq!(last.peek(), None);
    }

    #[test]
    fn messages_that_share_a_chunk_go_with_it_as_a_whole() {
        let members = vec![member(10), member(20)];
        let plan = ChunkPlan {
            members: Members::Many(members.clone()),
            bytes: 30,
            first_channel: 2,
            gathered: Some(MemoryType::Host),
        };
        let mut stripes = plan.stripes(30, 3);
        let (channel, mut stripe) = stripes.next().unwrap();
        assert_eq!((channel, stripe.gathered), (2, Some(MemoryType::Host)));
        assert_eq!(stripe.peek(), Some((ChunkRange { offset: 0, bytes: 30 }, members[0])));
        assert_eq!(stripe.take().unwrap().members, Members::Many(members));
        assert!(stripe.take().is_none() && stripes.next().is_none());
    }
}
