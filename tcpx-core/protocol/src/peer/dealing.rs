//! In which order matched messages are dealt to the channels. Pure.
//!
//! What is dealt leaves its channel in that order. So a long message is dealt a *section* at a
//! time, and whatever is matched meanwhile goes before its next section:
//!
//! ```text
//! short messages   dealt first, but while others wait no more at once than costs what a section
//!                  does
//! medium ones      } by turns: a plan of those, a section of these; and only while less than
//! long ones        } `ahead_bytes` of both are under way
//! ```
//!
//! Each kind is dealt in the order of its matches. Nobody starves: a short message waits for what
//! is under way, which is bounded, and a section for a bounded number of short ones.
//!
//! How long the chunks of a message are. The sender decides, and says so with its match. Pure.
//!
//! Where processors move the bytes, one of them sends, and another receives and unpacks. They work
//! at the same time only on different chunks, so a message of middling size is cut into several,
//! and what was just received is unpacked from the cache. A hardware plugin moves bytes by itself,
//! a GPU unpacks whatever has arrived in one go, and each request costs: chunks stay whole.

use std::collections::{TryReserveError, VecDeque};

use super::coalescer::{Coalescer, FEW, MatchedSend};
use crate::types::OpKey;

/// Messages up to this size are short.
const SHORT_BYTES: u64 = 64 << 10;
/// Bytes of a section, unless a chunk has more: a long message takes one frame for each.
const SECTION_BYTES: u64 = 4 << 20;
/// A plan costs as much as it does to copy so many bytes, besides its own.
const PLAN_BYTES: u64 = 16 << 10;

/// How messages are told apart, and how much of them is under way.
#[derive(Clone, Copy, Debug)]
pub struct DealingLimits {
    /// Messages up to this size are short.
    pub short_bytes: u64,
    /// Whole chunks that are dealt of a long message at once. Messages up to this size are medium.
    pub section_bytes: u64,
    /// Once so many bytes of medium and long messages are under way, no more are dealt.
    pub ahead_bytes: u64,
    /// What a plan costs, besides its bytes.
    pub plan_bytes: u64,
}

impl DealingLimits {
    /// Limits with which so many chunks are always under way, if there are any.
    pub fn new(chunk_bytes: u32, chunks_ahead: u64) -> Self {
        let chunk_bytes = u64::from(chunk_bytes.max(1));
        Self {
            short_bytes: SHORT_BYTES,
            section_bytes: (SECTION_BYTES / chunk_bytes).max(1) * chunk_bytes,
            ahead_bytes: chunk_bytes.saturating_mul(chunks_ahead),
            plan_bytes: PLAN_BYTES,
        }
    }
}

/// What is dealt next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Short,
    Medium,
    /// A section of a long message.
    Section,
}

/// A part of a long message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) matched: MatchedSend,
    /// Where it begins in the message.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A long message, and how much of it is dealt.
#[derive(Clone, Copy, Debug)]
struct Long {
    matched: MatchedSend,
    dealt: u64,
}

/// Sends that were matched and wait to be dealt.
#[derive(Debug)]
pub(super) struct Dealing {
    limits: DealingLimits,
    short: Coalescer,
    medium: Coalescer,
    long: VecDeque<Long>,
    /// Operations with a list, of the three kinds.
    listed: [VecDeque<OpKey>; 3],
    /// They have their turn next, of each kind.
    is_turn_of_listed: [bool; 3],
    /// Bytes of medium and long messages that were dealt and are not sent.
    under_way: u64,
    is_turn_of_long: bool,
    /// What may be spent on short messages before others have their turn.
    short_left: u64,
}

impl Dealing {
    pub(super) fn new(limits: DealingLimits) -> Self {
        Self {
            limits,
            short: Coalescer::default(),
            medium: Coalescer::default(),
            long: VecDeque::new(),
            listed: [const { VecDeque::new() }; 3],
            is_turn_of_listed: [false; 3],
            under_way: 0,
            is_turn_of_long: false,
            short_left: limits.section_bytes,
        }
    }

    pub(super) fn push(&mut self, matched: MatchedSend) {
        match matched.member.bytes {
            bytes if bytes <= self.limits.short_bytes => self.short.push(matched),
            bytes if bytes <= self.limits.section_bytes => self.medium.push(matched),
            _ => self.long.push_back(Long { matched, dealt: 0 }),
        }
    }

    /// Whether the receiver may have to be told of a match of this tag.
    pub(super) fn may_owe_match(&self, tag: i64) -> bool {
        let is_owed = |long: &Long| long.dealt == 0 && long.matched.member.tag == tag;
        self.short.may_have(tag)
            || self.medium.may_have(tag)
            || self.long.len() > FEW
            || self.long.iter().any(is_owed)
    }

    /// Makes room for so many more messages of any size.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.short.make_room(count)?;
        self.medium.make_room(count)?;
        self.long.try_reserve(count)
    }

    /// Gives back what nothing needs of that.
    pub(super) fn give_room_back(&mut self) {
        self.short.give_room_back();
        self.medium.give_room_back();
        self.long.shrink_to(self.long.len());
    }

    /// What is dealt next. `None`: nothing waits, or enough is under way.
    pub(super) fn turn(&self) -> Option<Turn> {
        let has_medium = self.has(Turn::Medium);
        let has_long = self.has(Turn::Section);
        let others_wait = has_medium || has_long;
        if self.has(Turn::Short) && (self.short_left > 0 || !others_wait) {
            return Some(Turn::Short);
        }
        if !others_wait || self.under_way >= self.limits.ahead_bytes {
            return None;
        }
        let is_long = !has_medium || (self.is_turn_of_long && has_long);
        Some(if is_long { Turn::Section } else { Turn::Medium })
    }

    /// Whether nothing of medium and long messages is on its way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way == 0
    }

    fn has_messages(&self, turn: Turn) -> bool {
        match turn {
            Turn::Short => !self.short.is_empty(),
            Turn::Medium => !self.medium.is_empty(),
            Turn::Section => !self.long.is_empty(),
        }
    }

    fn has(&self, turn: Turn) -> bool {
        self.has_messages(turn) || !self.listed[turn as usize].is_empty()
    }

    /// Messages of one kind and operations with a list take turns.
    pub(super) fn next_listed(&self, turn: Turn) -> Option<OpKey> {
        let is_turn = self.is_turn_of_listed[turn as usize] || !self.has_messages(turn);
        self.listed[turn as usize].front().copied().filter(|_| is_turn)
    }

    fn turn_of(&self, total: u64) -> Turn {
        match total {
            total if total <= self.limits.short_bytes => Turn::Short,
            total if total <= self.limits.section_bytes => Turn::Medium,
            _ => Turn::Section,
        }
    }

    /// Most bytes of a section.
    pub(super) fn section_bytes(&self) -> u64 {
        self.limits.section_bytes
    }

    /// An operation with a list of so many bytes waits to be dealt.
    pub(super) fn push_listed(&mut self, op: OpKey, total: u64) {
        self.listed[self.turn_of(total) as usize].push_back(op);
    }

    /// The operation with a list that has its turn is not dealt any more.
    pub(super) fn pop_listed(&mut self, turn: Turn) {
        self.listed[turn as usize].pop_front();
    }

    /// A section of so many bytes was taken of the operation that has its turn. Unless it was the
    /// last one, the others of its kind come before its next.
    pub(super) fn dealt_listed(&mut self, turn: Turn, bytes: u64, is_last: bool) {
        let queue = &mut self.listed[turn as usize];
        if is_last {
            queue.pop_front();
        } else {
            queue.rotate_left(1);
        }
        self.dealt(turn, bytes);
        self.is_turn_of_listed[turn as usize] = false;
    }

    /// The messages of which several may share a chunk.
    pub(super) fn messages(&mut self, turn: Turn) -> Option<&mut Coalescer> {
        match turn {
            Turn::Short => Some(&mut self.short),
            Turn::Medium => Some(&mut self.medium),
            Turn::Section => None,
        }
    }

    /// A plan of so many bytes was taken of the messages of this turn.
    pub(super) fn dealt(&mut self, turn: Turn, bytes: u64) {
        self.is_turn_of_listed[turn as usize] = true;
        if turn == Turn::Short {
            let cost = bytes.saturating_add(self.limits.plan_bytes);
            self.short_left = self.short_left.saturating_sub(cost);
            return;
        }
        self.under_way += bytes;
        self.is_turn_of_long = turn == Turn::Medium;
        self.short_left = self.limits.section_bytes;
    }

    /// Takes the next section of the long message that was matched first.
    pub(super) fn take_section(&mut self) -> Option<Section> {
        let Long { matched, dealt } = self.long.front_mut()?;
        let (matched, offset) = (*matched, *dealt);
        let left = matched.member.bytes - offset;
        let bytes = left.min(self.limits.section_bytes);
        *dealt += bytes;
        if bytes == left {
            self.long.pop_front();
        }
        self.dealt(Turn::Section, bytes);
        Some(Section { matched, offset, bytes })
    }

    /// So many bytes of a message of `message_bytes` were sent.
    pub(super) fn sent(&mut self, message_bytes: u64, bytes: u64) {
        if message_bytes > self.limits.short_bytes {
            self.under_way = self.under_way.saturating_sub(bytes);
        }
    }
}

/// Chunks are cut no shorter than that: about there a request costs a tenth of the copies.
const SHORTEST_BYTES: u32 = 64 << 10;
/// Chunks of a message that is cut, unless they would be too short or too long.
const CHUNKS: u64 = 4;
/// A chunk may be so many times shorter than the agreed size.
const MOST_CUTS: u32 = 8;
const PAGE_BYTES: u64 = 4096;

/// How one end cuts what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Cutting {
    /// As both ends agreed.
    pub chunk_bytes: u32,
    /// Least bytes of the chunks of a message that is cut.
    pub shortest: u32,
    /// Most bytes of them.
    pub longest: u32,
}

impl Cutting {
    /// Every chunk is as long as it may be.
    pub fn whole(chunk_bytes: u32) -> Self {
        Self { chunk_bytes, shortest: chunk_bytes, longest: chunk_bytes }
    }

    /// Messages of a few chunks are cut into more.
    pub fn pipelined(chunk_bytes: u32) -> Self {
        let shortest = shortest_chunk(chunk_bytes).max(SHORTEST_BYTES).min(chunk_bytes);
        Self { chunk_bytes, shortest, longest: (chunk_bytes / 2).max(shortest) }
    }

    /// Bytes of each chunk, but for the last, of a message that is dealt as a whole.
    pub(super) fn chunk_bytes(&self, message_bytes: u64) -> u32 {
        if message_bytes <= u64::from(self.shortest) {
            return self.chunk_bytes;
        }
        let share = message_bytes.div_ceil(CHUNKS).next_multiple_of(PAGE_BYTES);
        u32::try_from(share).map_or(self.longest, |share| share.clamp(self.shortest, self.longest))
    }
}

/// The shortest chunks into which a peer may cut a message.
pub(super) fn shortest_chunk(chunk_bytes: u32) -> u32 {
    chunk_bytes.div_ceil(MOST_CUTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_some_whole_chunks() {
        for chunk_bytes in [4096, 65_536, 524_288, 524_287, 3 << 20, 4 << 20, 64 << 20] {
            let limits = DealingLimits::new(chunk_bytes, 24);
            let chunk = u64::from(chunk_bytes);
            assert!(limits.section_bytes.is_multiple_of(chunk) && limits.section_bytes >= chunk);
            assert!(limits.section_bytes <= SECTION_BYTES.max(chunk), "{chunk_bytes}");
            assert_eq!(limits.ahead_bytes, 24 * chunk, "{chunk_bytes}");
        }
    }

    const KIB: u64 = 1 << 10;

    #[test]
    fn messages_of_middling_size_are_cut_into_several_chunks() {
        let cutting = Cutting::pipelined(512 << 10);
        for (message, chunk) in
            [(1, 512), (64, 512), (65, 64), (128, 64), (512, 128), (1024, 256), (4096, 256)]
        {
            assert_eq!(u64::from(cutting.chunk_bytes(message * KIB)), chunk * KIB, "{message}");
        }
        assert_eq!(cutting.chunk_bytes(600_000), 151_552, "whole pages");
        assert_eq!(cutting.chunk_bytes(u64::MAX / 2), 256 << 10);
    }

    #[test]
    fn short_chunks_are_not_cut_and_none_is_longer_than_agreed() {
        for agreed in [1, 4096, 16 << 10, 64 << 10, 100_000, 1 << 20, 4 << 20] {
            for bytes in [1, 5000, 70_000, 600_000, 4 << 20] {
                assert_eq!(Cutting::whole(agreed).chunk_bytes(bytes), agreed);
                let chunk = Cutting::pipelined(agreed).chunk_bytes(bytes);
                assert!((shortest_chunk(agreed)..=agreed).contains(&chunk), "{agreed}: {chunk}");
                assert!(u64::from(agreed) > 64 * KIB || chunk == agreed, "{agreed}: {chunk}");
            }
        }
    }
}
