//! Coalescer of small messages that were matched one after the other. They travel as one chunk,
//! which costs the plugin one request instead of one each. Pure.
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

use std::collections::{TryReserveError, VecDeque};

use super::super::tags::matcher::PostedReceive;
use super::route::FEW;
use super::tuning::Tuning;
use crate::frames::fields::Delivery;
use crate::frames::messages::{MAX_NAMES, Names};
use crate::plans::plan::{Member, Members};
use crate::types::{MemoryType, OpKey};

/// Number of messages whose room is kept to be used again.
const KEPT_WAITING: usize = 4096;

/// A send and the receive that it was matched with.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct MatchedSend {
    pub(in super::super) member: Member,
    pub(in super::super) announced: PostedReceive,
}

impl MatchedSend {
    /// Returns whether the receive of `next` may share a chunk with this one's.
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

/// Part of the front that is the next plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Portion {
    pub(in super::super) messages: usize,
    pub(in super::super) bytes: u64,
    /// The kind of memory that it is gathered from; `None`: it lies in one piece.
    pub(in super::super) gathered: Option<MemoryType>,
}

/// A message that waits to be scheduled.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Waiting {
    /// A send that is not scheduled at all. Neighbours may share a chunk, unless they are long.
    Send(MatchedSend),
    /// A read or write, or a send that the receiver knows of.
    Listed(OpKey),
}

/// Messages of about the same size that wait to be cut into plans.
#[derive(Debug, Default)]
pub(in super::super) struct Coalescer {
    waiting: VecDeque<Waiting>,
    /// Number of sends among them.
    sends: usize,
    /// Number of sends that came since there was none.
    came: usize,
}

impl Coalescer {
    pub(in super::super) fn push(&mut self, waiting: Waiting) {
        if let Waiting::Send(_) = waiting {
            self.came = if self.sends == 0 { 1 } else { self.came + 1 };
            self.sends += 1;
        }
        self.waiting.push_back(waiting);
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns how many messages wait.
    pub(in super::super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether a send of this tag waits. The look is short: the answer may be true although
    /// none waits.
    pub(in super::super) fn may_have(&self, tag: i64) -> bool {
        let has_tag = |it: &Waiting| matches!(it, Waiting::Send(it) if it.member.tag == tag);
        self.sends > 0 && (self.waiting.len() > FEW || self.waiting.iter().any(has_tag))
    }

    /// Returns the next message.
    #[inline]
    pub(in super::super) fn front(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Takes the next message out: it is scheduled, or given up.
    pub(in super::super) fn pop(&mut self) {
        if let Some(Waiting::Send(_)) = self.waiting.pop_front() {
            self.sends -= 1;
        }
    }

    /// Goes on behind a section of the next message that is scheduled. `rest`: not all of the
    /// message is.
    pub(in super::super) fn go_on(&mut self, rest: Option<OpKey>) {
        self.pop();
        if let Some(op) = rest {
            self.waiting.push_front(Waiting::Listed(op));
        }
    }

    /// Returns the send at `index`, if one is there.
    #[inline]
    fn send(&self, index: usize) -> Option<&MatchedSend> {
        match self.waiting.get(index)? {
            Waiting::Send(matched) => Some(matched),
            Waiting::Listed(_) => None,
        }
    }

    /// Returns how many sends came since there was none.
    pub(in super::super) fn came(&self) -> usize {
        self.came
    }

    /// Makes room for `count` more messages.
    pub(in super::super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.waiting.try_reserve(count)
    }

    /// Gives back what nothing needs of that.
    pub(in super::super) fn give_room_back(&mut self) {
        self.waiting.shrink_to(self.waiting.len().max(KEPT_WAITING));
    }

    /// Returns how much is the next plan. `None`: nothing waits.
    pub(in super::super) fn next(&self, tuning: &Tuning) -> Option<Portion> {
        let chunk_bytes = u64::from(tuning.chunk_bytes);
        let head = self.next_in_place(tuning)?;
        let memory = self.send(0)?.member.span.memory;
        let together = tuning.gathered(memory).and_then(|gathering| {
            gathering.together((head.bytes, head.messages), chunk_bytes, |(bytes, messages)| {
                if !self.goes_on(messages, memory) {
                    return None;
                }
                let next = self.segment(messages, chunk_bytes - bytes, MAX_NAMES - messages)?;
                Some((next.bytes, next.messages))
            })
        });
        Some(match together {
            Some((bytes, messages)) => Portion { messages, bytes, gathered: Some(memory) },
            None => head,
        })
    }

    /// Returns how much is the next plan when nothing can be gathered: what lies one behind the
    /// other.
    pub(in super::super) fn next_in_place(&self, tuning: &Tuning) -> Option<Portion> {
        let first = self.send(0)?.member;
        let room = tuning.shared_chunk(first.span.memory, first.bytes);
        self.segment(0, room, MAX_NAMES)
    }

    /// Returns whether the message at `index` may share a chunk with those before it, judging by
    /// its receive and the kind of its memory.
    fn goes_on(&self, index: usize, memory: MemoryType) -> bool {
        index < MAX_NAMES
            && self.send(index - 1).zip(self.send(index)).is_some_and(|(last, next)| {
                next.member.span.memory == memory && last.may_share_with(next)
            })
    }

    /// Returns the segment that begins at `index`: at least one message, and as many behind it as
    /// fit.
    fn segment(&self, index: usize, room: u64, most: usize) -> Option<Portion> {
        let mut last = self.send(index)?;
        let mut portion = Portion { messages: 1, bytes: last.member.bytes, gathered: None };
        while portion.messages < most
            && let Some(next) = self.send(index + portion.messages)
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
    pub(in super::super) fn take(
        &mut self,
        portion: Portion,
        spare: Vec<Member>,
    ) -> Option<(Members, Names)> {
        self.sends -= portion.messages;
        if portion.messages == 1 {
            let Waiting::Send(MatchedSend { member, announced }) = self.waiting.pop_front()? else {
                return None;
            };
            return Some((Members::One(member), std::iter::once(announced.recv).collect()));
        }
        let mut members = spare;
        members.reserve(portion.messages);
        let mut names = Names::with_capacity(portion.messages);
        for waiting in self.waiting.drain(..portion.messages) {
            let Waiting::Send(MatchedSend { member, announced }) = waiting else { continue };
            members.push(member);
            names.push(announced.recv);
        }
        Some((Members::Many(members), names))
    }
}

#[cfg(test)]
mod tests;
