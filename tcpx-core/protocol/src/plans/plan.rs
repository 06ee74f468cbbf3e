//! Plan of chunks that travel together: of one message of any size, or of several small ones that
//! share a chunk. Pure.
//!
//! The protocol makes plans, the lanes carry them out, and what has been carried out comes back to
//! the protocol. A plan owns its messages, so a lane needs to look nothing up.
//!
//! The module also cuts a plan into chunks and schedules them to channels. Pure; both ends compute
//! the same.

use super::channel_set::ChannelSet;
use crate::types::{MemoryType, OpKey, Span, TransferKey};

/// Matched message: its operation and transfer, and the place of its bytes at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The operation at this end.
    pub op: OpKey,
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// Place of its bytes.
    pub span: Span,
    /// Its bytes.
    pub bytes: u64,
    /// Its tag.
    pub tag: i64,
}

impl Member {
    /// Returns whether `next` begins where this ends, in one registration.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        self.span.registration == next.span.registration
            && self.span.address.checked_add(self.bytes) == Some(next.span.address)
    }
}

/// The messages of a plan, at least one.
#[derive(Debug, PartialEq, Eq)]
pub enum Members {
    /// A message by itself, cut into as many chunks as it takes.
    One(Member),
    /// Messages whose bytes lie one behind the other in one chunk, in this order.
    Many(Vec<Member>),
}

impl Members {
    /// Returns them in their order.
    pub fn as_slice(&self) -> &[Member] {
        match self {
            Self::One(member) => std::slice::from_ref(member),
            Self::Many(members) => members,
        }
    }
}

/// Chunks that are scheduled to channels at once.
#[derive(Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    /// The messages, in their order.
    pub members: Members,
    /// Offset in the message at which the plan, which may be a section of it, begins; 0 for several
    /// messages.
    pub offset: u64,
    /// Bytes of all members, or of the section.
    pub bytes: u64,
    /// Bytes of each chunk, but for the last. Several messages fit one.
    pub chunk_bytes: u32,
    /// Channel of the first chunk; the others go round robin from there.
    pub first_channel: u16,
    /// Channels that they go to.
    pub channels: ChannelSet,
    /// Members that lie apart are copied together first, in memory of this kind. `None`: the bytes
    /// lie in one piece, and are sent from there. Nothing is gathered to be received.
    pub gathered: Option<MemoryType>,
}

/// The chunks of a plan that travel on one channel, in order.
#[derive(Debug)]
pub struct Stripe {
    members: Members,
    /// The kind of memory in which they must be gathered, if they must.
    pub gathered: Option<MemoryType>,
    /// Byte offset of the next chunk in the message, or in the chunk that several share.
    next: u64,
    /// Byte offset of the oldest chunk that has not finished.
    unfinished: u64,
    /// From one chunk of this stripe to the next.
    step_bytes: u64,
    chunk_bytes: u32,
    /// End of the plan.
    end: u64,
    /// Chunks that have not finished.
    left: u64,
}

/// Bytes that a chunk has of its message, or of all that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// Byte offset of the first.
    pub offset: u64,
    /// Bytes of the chunk.
    pub bytes: u32,
    /// Bytes of whole chunks of the same plan.
    pub chunk_bytes: u32,
}

impl ChunkRange {
    /// Returns the number of the chunk in its message, from 0.
    pub fn number(&self) -> u64 {
        self.offset / u64::from(self.chunk_bytes.max(1))
    }
}

impl Stripe {
    /// Returns the messages that its chunks are of.
    pub fn members(&self) -> &[Member] {
        self.members.as_slice()
    }

    /// Returns the number of chunks that have not finished.
    pub fn chunks_left(&self) -> u64 {
        self.left
    }

    /// Returns the next chunk of this channel, without taking it.
    pub fn peek(&self) -> Option<ChunkRange> {
        self.chunk_at(self.next)
    }

    /// Returns the oldest chunk that has not finished.
    pub fn oldest(&self) -> Option<ChunkRange> {
        self.chunk_at(self.unfinished)
    }

    fn chunk_at(&self, offset: u64) -> Option<ChunkRange> {
        let rest = self.end.checked_sub(offset).filter(|rest| *rest > 0)?;
        let bytes = u32::try_from(rest).map_or(self.chunk_bytes, |rest| rest.min(self.chunk_bytes));
        Some(ChunkRange { offset, bytes, chunk_bytes: self.chunk_bytes })
    }

    /// Goes back to the oldest chunk that has not finished: it is taken again, and all behind it.
    pub fn take_back(&mut self) {
        self.next = self.unfinished;
    }

    /// Steps to the chunk after the one that `peek` shows. Returns whether there is one.
    pub fn advance(&mut self) -> bool {
        self.next = self.next.saturating_add(self.step_bytes);
        self.next < self.end
    }

    /// Counts a chunk that has finished. Returns whether it was the last one.
    pub fn finish(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.unfinished = self.unfinished.saturating_add(self.step_bytes);
        self.left == 0
    }

    /// Returns its messages.
    pub fn into_members(self) -> Members {
        self.members
    }
}

/// Returns the number of chunks of a message of `message_bytes`; 0 for an empty one, which travels
/// on the control link alone.
pub fn chunk_count(message_bytes: u64, chunk_bytes: u32) -> u64 {
    message_bytes.div_ceil(u64::from(chunk_bytes))
}

impl ChunkPlan {
    /// Deals the chunks round robin to its channels. Yields (channel, stripe) for each channel that
    /// gets any. Several members fit one chunk together.
    pub fn stripes(self) -> impl Iterator<Item = (u16, Stripe)> {
        let Self { members, offset, bytes, chunk_bytes, first_channel, channels, gathered } = self;
        let (chunks, step) = (chunk_count(bytes, chunk_bytes), u64::from(channels.count()));
        let mut members = Some(members);
        (0..chunks.min(step)).map_while(move |turn| {
            let members = match &members {
                Some(Members::One(member)) => Members::One(*member),
                _ => members.take()?,
            };
            let channel = channels.behind(first_channel, turn);
            let first = offset + turn * u64::from(chunk_bytes);
            let stripe = Stripe {
                members,
                gathered,
                next: first,
                unfinished: first,
                step_bytes: step * u64::from(chunk_bytes),
                chunk_bytes,
                end: offset + bytes,
                left: (chunks - turn).div_ceil(step),
            };
            Some((channel, stripe))
        })
    }
}

/// Room for this many members is kept to be used again: as much as a backlog of as many messages
/// takes anyway.
const SPARE_MEMBERS: usize = 1 << 15;

/// Empty lists of members, to be used again.
#[derive(Debug, Default)]
pub struct SpareLists {
    lists: Vec<Vec<Member>>,
    /// The room that they have together.
    members: usize,
}

impl SpareLists {
    /// Returns an empty list, with room if some is left.
    pub fn take(&mut self) -> Vec<Member> {
        let spare = self.lists.pop().unwrap_or_default();
        self.members -= spare.capacity();
        spare
    }

    /// Keeps a list that is used no more, unless there is room enough.
    pub fn give_back(&mut self, mut list: Vec<Member>) {
        list.clear();
        if self.members + list.capacity() <= SPARE_MEMBERS {
            self.members += list.capacity();
            self.lists.push(list);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::RegistrationKey;

    pub(crate) fn member(bytes: u64) -> Member {
        let (op, transfer) = (OpKey::default(), TransferKey::default());
        let registration = RegistrationKey::default();
        let span = Span { registration, address: 0, memory: MemoryType::Host };
        Member { op, transfer, span, bytes, tag: 0 }
    }

    pub(crate) fn plan(bytes: u64, chunk_bytes: u32, first_channel: u16) -> ChunkPlan {
        plan_on(1, bytes, chunk_bytes, first_channel)
    }

    fn plan_on(channels: u16, bytes: u64, chunk_bytes: u32, first_channel: u16) -> ChunkPlan {
        let members = Members::One(member(bytes));
        let (channels, offset, gathered) = (ChannelSet::first(channels), 0, None);
        ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, channels, gathered }
    }

    #[test]
    fn neighbours_follow_each_other_in_one_registration() {
        let first = Member { span: Span { address: 100, ..member(8).span }, ..member(8) };
        let at = |address| Member { span: Span { address, ..first.span }, ..first };
        assert!(first.is_followed_by(&at(108)));
        assert!(!first.is_followed_by(&at(107)) && !first.is_followed_by(&at(109)));
        let endless = Member { bytes: u64::MAX, ..first };
        assert!(!endless.is_followed_by(&at(99)));
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
            for (channel, mut stripe) in plan_on(channels, bytes, chunk_bytes, first).stripes() {
                prop_assert!(channel < channels);
                let channels = u64::from(channels);
                let mut turn = (u64::from(channel) + channels - u64::from(first)) % channels;
                while let Some(range) = stripe.peek() {
                    prop_assert_eq!(range.offset, turn * u64::from(chunk_bytes), "round robin");
                    turn += channels;
                    chunks.push((range.offset, range.bytes));
                    prop_assert_eq!(stripe.advance(), stripe.peek().is_some());
                    prop_assert_eq!(stripe.finish(), stripe.peek().is_none(), "counted right");
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
        let (_, mut last) = plan(u64::MAX, 4096, 0).stripes().next().unwrap();
        last.next = u64::MAX / 4096 * 4096;
        assert_eq!(last.peek().map(|range| range.bytes), Some(4095));
        assert!(!last.advance() && last.peek().is_none());
    }

    #[test]
    fn messages_that_share_a_chunk_are_one_stripe() {
        let members = vec![member(10), member(20)];
        let plan = ChunkPlan {
            members: Members::Many(members.clone()),
            offset: 0,
            bytes: 30,
            chunk_bytes: 30,
            first_channel: 2,
            channels: ChannelSet::first(3),
            gathered: Some(MemoryType::Host),
        };
        let mut stripes = plan.stripes();
        let (channel, stripe) = stripes.next().unwrap();
        assert_eq!((channel, stripe.gathered), (2, Some(MemoryType::Host)));
        assert_eq!(stripe.peek(), Some(ChunkRange { offset: 0, bytes: 30, chunk_bytes: 30 }));
        assert_eq!(stripe.members(), members);
        assert!(stripes.next().is_none());
    }
}
