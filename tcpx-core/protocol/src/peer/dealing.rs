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

use std::collections::{TryReserveError, VecDeque};

use super::coalescer::{Coalescer, MatchedSend};
use super::route::FEW;
use super::tuning::Tuning;
use crate::types::OpKey;

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
    pub(super) tuning: Tuning,
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
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            tuning,
            short: Coalescer::default(),
            medium: Coalescer::default(),
            long: VecDeque::new(),
            listed: [const { VecDeque::new() }; 3],
            is_turn_of_listed: [false; 3],
            under_way: 0,
            is_turn_of_long: false,
            short_left: tuning.section_bytes,
        }
    }

    pub(super) fn push(&mut self, matched: MatchedSend) {
        match matched.member.bytes {
            bytes if bytes <= self.tuning.short_bytes => self.short.push(matched),
            bytes if bytes <= self.tuning.section_bytes => self.medium.push(matched),
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
        if !others_wait || self.under_way >= self.tuning.ahead_bytes {
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
            total if total <= self.tuning.short_bytes => Turn::Short,
            total if total <= self.tuning.section_bytes => Turn::Medium,
            _ => Turn::Section,
        }
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
            let cost = bytes.saturating_add(self.tuning.plan_bytes);
            self.short_left = self.short_left.saturating_sub(cost);
            return;
        }
        self.under_way += bytes;
        self.is_turn_of_long = turn == Turn::Medium;
        self.short_left = self.tuning.section_bytes;
    }

    /// Takes the next section of the long message that was matched first.
    pub(super) fn take_section(&mut self) -> Option<Section> {
        let Long { matched, dealt } = self.long.front_mut()?;
        let (matched, offset) = (*matched, *dealt);
        let left = matched.member.bytes - offset;
        let bytes = left.min(self.tuning.section_bytes);
        *dealt += bytes;
        if bytes == left {
            self.long.pop_front();
        }
        self.dealt(Turn::Section, bytes);
        Some(Section { matched, offset, bytes })
    }

    /// So many bytes of a message of `message_bytes` were sent.
    pub(super) fn sent(&mut self, message_bytes: u64, bytes: u64) {
        if message_bytes > self.tuning.short_bytes {
            self.under_way = self.under_way.saturating_sub(bytes);
        }
    }
}
