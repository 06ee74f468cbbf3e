//! Small messages that were matched one after the other travel as one chunk, which costs the plugin
//! one request instead of one each. Pure.
//!
//! The sender decides. It looks at all messages that were matched between two polls, in their
//! order, and cuts plans off the front:
//!
//! ```text
//! take the first message, and those behind it that lie one behind the other: a segment
//! if the segment is long, or nothing can copy: it is the plan, sent from where it lies
//! else add segments, as long as each is short and all fit a chunk together
//! if there are enough of them: they are the plan, copied together before they are sent
//! else the first segment is the plan
//! ```
//!
//! Receives may share a chunk when they are unpacked, wherever they belong, or when they lie one
//! behind the other. No message waits for one that is not there yet.
//!
//! When it pays to copy scattered small messages together, so that they share a chunk. Pure.

use std::collections::{TryReserveError, VecDeque};

use super::matcher::Announced;
use crate::frames::fields::Delivery;
use crate::frames::frame::{MAX_NAMES, Names};
use crate::plans::piece_cursor::Gathering;
use crate::plans::plan::{Member, Members};
use crate::types::MemoryType;

/// Most messages of a batch that may travel on the link. More of them share chunks, which costs
/// less for each.
pub(super) const FEW: usize = 8;
/// Room for so many messages is kept to be used again.
const KEPT_MATCHED: usize = 4096;

/// A send and the receive that it was matched with.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedSend {
    pub(super) member: Member,
    pub(super) announced: Announced,
}

impl MatchedSend {
    /// Whether the receive of `next` may share a chunk with this one's.
    fn may_share_with(&self, next: &Self) -> bool {
        if self.member.bytes == 0 || next.member.bytes == 0 {
            return false;
        }
        match next.announced.delivery {
            Delivery::Unpacked => self.announced.delivery == Delivery::Unpacked,
            Delivery::InPlace => false,
            Delivery::InPlaceBehind => {
                self.announced.delivery != Delivery::Unpacked
                    && next.announced.number == self.announced.number + 1
            }
        }
    }
}

/// How much of the front is the next plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) messages: usize,
    pub(super) bytes: u64,
    /// The kind of memory that it is gathered from; `None`: it lies in one piece.
    pub(super) gathered: Option<MemoryType>,
}

/// Sends that were matched and wait to be cut into plans.
#[derive(Debug, Default)]
pub(super) struct Coalescer {
    matched: VecDeque<MatchedSend>,
    /// How many of them came since there was none.
    came: usize,
}

impl Coalescer {
    pub(super) fn push(&mut self, matched: MatchedSend) {
        self.came = if self.matched.is_empty() { 1 } else { self.came + 1 };
        self.matched.push_back(matched);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.matched.is_empty()
    }

    /// Whether a message of this tag waits, as far as a short look tells.
    pub(super) fn may_have(&self, tag: i64) -> bool {
        self.matched.len() > FEW || self.matched.iter().any(|it| it.member.tag == tag)
    }

    /// The next message.
    pub(super) fn front(&self) -> Option<&MatchedSend> {
        self.matched.front()
    }

    /// Whether the next plan is one message, and one of a few that were matched together.
    pub(super) fn is_alone(&self, portion: Portion) -> bool {
        portion.messages == 1 && self.came <= FEW
    }

    /// Makes room for so many more.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.matched.try_reserve(count)
    }

    /// Gives back what nothing needs of that.
    pub(super) fn give_room_back(&mut self) {
        self.matched.shrink_to(self.matched.len().max(KEPT_MATCHED));
    }

    /// How much is the next plan. `None`: nothing waits.
    pub(super) fn next(&self, limits: &CoalescingLimits) -> Option<Portion> {
        let chunk_bytes = u64::from(limits.chunk_bytes);
        let head = self.next_in_place(limits)?;
        let memory = self.matched.front()?.member.span.memory;
        let Some(gathering) = limits.of(memory).filter(|it| head.bytes <= it.segment_bytes) else {
            return Some(head);
        };
        let (mut whole, mut segments) = (head, 1);
        while self.goes_on(whole.messages, memory)
            && let Some(segment) =
                self.segment(whole.messages, chunk_bytes - whole.bytes, MAX_NAMES - whole.messages)
            && segment.bytes <= gathering.segment_bytes.min(chunk_bytes - whole.bytes)
        {
            whole.messages += segment.messages;
            whole.bytes += segment.bytes;
            segments += 1;
        }
        if segments == 1 || segments < gathering.segments {
            return Some(head);
        }
        Some(Portion { gathered: Some(memory), ..whole })
    }

    /// How much is the next plan when nothing can be gathered: what lies one behind the other.
    pub(super) fn next_in_place(&self, limits: &CoalescingLimits) -> Option<Portion> {
        self.segment(0, u64::from(limits.chunk_bytes), MAX_NAMES)
    }

    /// Whether the message at `index` may share a chunk with those before it, as far as its receive
    /// and the kind of its memory tell.
    fn goes_on(&self, index: usize, memory: MemoryType) -> bool {
        index < MAX_NAMES
            && self.matched.get(index).is_some_and(|next| {
                next.member.span.memory == memory && self.matched[index - 1].may_share_with(next)
            })
    }

    /// The segment that begins at `index`: at least one message, and as many behind it as fit.
    fn segment(&self, index: usize, room: u64, most: usize) -> Option<Portion> {
        let mut last = self.matched.get(index)?;
        let mut portion = Portion { messages: 1, bytes: last.member.bytes, gathered: None };
        while portion.messages < most
            && let Some(next) = self.matched.get(index + portion.messages)
            && last.member.is_followed_by(&next.member)
            && last.may_share_with(next)
            && portion.bytes.saturating_add(next.member.bytes) <= room
        {
            portion.bytes += next.member.bytes;
            portion.messages += 1;
            last = next;
        }
        Some(portion)
    }

    /// Takes the next plan's messages out, and the receiver's names for them. Several go into
    /// `spare`, an empty list whose room is used again.
    #[inline]
    pub(super) fn take(
        &mut self,
        portion: Portion,
        spare: Vec<Member>,
    ) -> Option<(Members, Names)> {
        if portion.messages == 1 {
            let MatchedSend { member, announced } = self.matched.pop_front()?;
            return Some((Members::One(member), std::iter::once(announced.recv).collect()));
        }
        let mut members = spare;
        members.reserve(portion.messages);
        let mut names = Names::with_capacity(portion.messages);
        for MatchedSend { member, announced } in self.matched.drain(..portion.messages) {
            members.push(member);
            names.push(announced.recv);
        }
        Some((Members::Many(members), names))
    }
}

/// Longest segment that the CPU copies: about there the copy costs what a request of its own does.
const CPU_SEGMENT_BYTES: u64 = 16 << 10;
/// Fewest segments that the CPU copies together.
const CPU_SEGMENTS: usize = 2;
/// Fewest segments that a GPU copies together: a launch takes as long as so many requests do
/// (measured; BENCHMARKS.md).
const GPU_SEGMENTS: usize = 12;

/// What copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copier {
    /// By the CPU.
    Cpu,
    /// A kernel that takes any number of pieces.
    Gpu,
}

impl Gathering {
    /// Segments are so short that those of a full chunk are always worth it: what is gathered never
    /// falls apart for want of room.
    fn by(copier: Copier, chunk_bytes: u32) -> Self {
        let (segments, longest) = match copier {
            Copier::Cpu => (CPU_SEGMENTS, CPU_SEGMENT_BYTES),
            Copier::Gpu => (GPU_SEGMENTS, u64::MAX),
        };
        let share = u64::from(chunk_bytes) / segments as u64;
        Self { segment_bytes: longest.min(share), segments }
    }
}

/// What may share a chunk.
#[derive(Clone, Copy, Debug)]
pub struct CoalescingLimits {
    /// Most bytes of a chunk.
    pub chunk_bytes: u32,
    host: Option<Gathering>,
    device: Option<Gathering>,
}

impl CoalescingLimits {
    /// Only neighbours share a chunk.
    pub fn in_place(chunk_bytes: u32) -> Self {
        Self { chunk_bytes, host: None, device: None }
    }

    /// Host memory is copied by the CPU; device memory by what is given, if that can do it quickly
    /// enough.
    pub fn gathering(chunk_bytes: u32, device: Option<Copier>) -> Self {
        let host = Some(Gathering::by(Copier::Cpu, chunk_bytes));
        Self { chunk_bytes, host, device: device.map(|copier| Gathering::by(copier, chunk_bytes)) }
    }

    /// What is gathered of this kind of memory, if anything.
    pub(super) fn of(&self, memory: MemoryType) -> Option<Gathering> {
        match memory {
            MemoryType::Host => self.host,
            MemoryType::Device => self.device,
        }
    }
}

#[cfg(test)]
mod tests;
