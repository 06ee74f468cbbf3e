//! Schedule of what is sent: the order in which messages of all kinds are scheduled, and the amount
//! of them under way. Pure.
//!
//! Messages that are scheduled leave their channel in that order. So a long message is scheduled a
//! *section* at a time, and messages that are matched meanwhile go before its next section:
//!
//! ```text
//! short messages   scheduled first, but while others wait no more at once than a section costs
//! medium ones      } by turns: a plan of those, a section of these; and only while less than
//! long ones        } `ahead_bytes` of both are under way
//! ```
//!
//! A medium message is cut into short chunks, so that channels with little to send work on it at
//! the same time. Behind others it may stay whole.
//!
//! Chunks go to the channel on which they end first, and to those behind it. Channels are not
//! equally fast. So the next section of a long message is a single chunk once they differ, and a
//! slow channel holds up only what it has been dealt. Once they differ in speed, so is that of a
//! medium message of several chunks.
//!
//! Each of the three is one queue, for sends, reads and writes alike, in the order in which they
//! may move. Nothing starves: a short message waits for what is under way, which is bounded, and a
//! section for a bounded number of short ones. What travels on the link has a queue of its own: the
//! kernel's buffer bounds how much of it is under way.

mod channel_loads;
pub(super) mod coalescer;
mod link_queue;
pub(super) mod route;
pub(super) mod staging;
pub mod tuning;

use std::collections::TryReserveError;

use self::channel_loads::ChannelLoads;
use self::coalescer::{Coalescer, MatchedSend, Waiting};
use self::link_queue::LinkQueue;
use self::staging::StagingChannels;
use self::tuning::Tuning;
use super::message::Lane;
use crate::types::OpKey;

/// Next thing to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Short,
    Medium,
    Long,
}

/// Messages that wait to be scheduled.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) tuning: Tuning,
    /// Record of the channels that have a staging buffer.
    pub(super) staging: StagingChannels,
    pub(super) channels: ChannelLoads,
    queues: [Coalescer; 3],
    /// Messages that travel on the link.
    pub(super) link: LinkQueue,
    /// Bytes of medium and long messages that were scheduled and are not sent.
    under_way: u64,
    is_turn_of_long: bool,
    /// Budget for short messages before others have their turn.
    short_left: u64,
}

impl Schedule {
    pub(super) fn new(tuning: Tuning, channels: u16) -> Self {
        Self {
            tuning,
            staging: StagingChannels::new(channels),
            channels: ChannelLoads::new(channels, tuning.chunk_bytes, tuning.shortest_chunk),
            queues: <[Coalescer; 3]>::default(),
            link: LinkQueue::default(),
            under_way: 0,
            is_turn_of_long: false,
            short_left: tuning.section_bytes,
        }
    }

    /// Queues a send that was matched.
    pub(super) fn push(&mut self, matched: MatchedSend) {
        let turn = self.turn_of(matched.member.bytes);
        self.queue(turn).push(Waiting::Send(matched));
    }

    /// Queues a read or write, which costs this much: its bytes may move on this lane.
    pub(super) fn push_access(&mut self, op: OpKey, cost: u64, lane: Lane) {
        match lane {
            Lane::Link => self.link.push(op),
            Lane::Channels => {
                let turn = self.turn_of(cost);
                self.queue(turn).push(Waiting::Listed(op));
            }
        }
    }

    fn turn_of(&self, cost: u64) -> Turn {
        match cost {
            cost if cost <= self.tuning.short_bytes => Turn::Short,
            cost if cost <= self.tuning.section_bytes => Turn::Medium,
            _ => Turn::Long,
        }
    }

    /// Returns whether the receiver may have to be told of a match of this tag.
    pub(super) fn may_owe_match(&self, tag: i64) -> bool {
        self.queues.iter().any(|queue| queue.may_have(tag))
    }

    /// Makes room for this many more messages of any size.
    pub(super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.queues.iter_mut().try_for_each(|queue| queue.make_room(count))
    }

    /// Gives back what nothing needs of that.
    pub(super) fn give_room_back(&mut self) {
        self.queues.iter_mut().for_each(Coalescer::give_room_back);
    }

    /// Returns the next thing to schedule. `None`: nothing waits, or enough is under way.
    pub(super) fn turn(&self) -> Option<Turn> {
        let [has_short, has_medium, has_long] =
            self.queues.each_ref().map(|queue| !queue.is_empty());
        let others_wait = has_medium || has_long;
        if has_short && (self.short_left > 0 || !others_wait) {
            return Some(Turn::Short);
        }
        if !others_wait || self.under_way >= self.tuning.ahead_bytes {
            return None;
        }
        let is_long = !has_medium || (self.is_turn_of_long && has_long);
        Some(if is_long { Turn::Long } else { Turn::Medium })
    }

    /// Returns the messages of this turn.
    #[inline]
    pub(super) fn queue(&mut self, turn: Turn) -> &mut Coalescer {
        &mut self.queues[turn as usize]
    }

    /// Notes that a section which costs this much was taken of the message that comes first.
    pub(super) fn scheduled_section(
        &mut self,
        (turn, op): (Turn, OpKey),
        cost: u64,
        is_last: bool,
    ) {
        self.queue(turn).go_on((!is_last).then_some(op));
        self.scheduled(turn, cost);
    }

    /// Notes that a plan which costs this much was taken of the messages of this turn.
    pub(super) fn scheduled(&mut self, turn: Turn, cost: u64) {
        if turn == Turn::Short {
            let cost = cost.saturating_add(self.tuning.plan_bytes);
            self.short_left = self.short_left.saturating_sub(cost);
            return;
        }
        self.under_way += cost;
        self.is_turn_of_long = turn == Turn::Medium;
        self.short_left = self.tuning.section_bytes;
    }

    /// Returns the number of bytes of each chunk, but for the last, of a message that costs this
    /// much to have under way. The channels are busy once there is half a chunk for each.
    pub(super) fn chunk_bytes_of(&self, message_bytes: u64, cost: u64) -> u32 {
        let busy = u64::from(self.tuning.chunk_bytes / 2) * u64::from(self.channels.set().count());
        self.tuning.chunk_bytes_of(message_bytes, cost, self.under_way >= busy)
    }

    /// Returns whether each chunk of a message that costs `total` is a section, for the channel on
    /// which it ends first: channels differ.
    pub(super) fn is_dealt_by_chunks(&self, total: u64) -> bool {
        let Tuning { section_bytes, chunk_bytes, .. } = self.tuning;
        match total > section_bytes {
            true => self.channels.differ(),
            false => total > chunk_bytes.into() && self.channels.are_unequal(),
        }
    }

    /// Returns whether a send of this many bytes is dealt a section at a time.
    pub(super) fn is_cut(&self, turn: Turn, bytes: u64) -> bool {
        match turn {
            Turn::Short => false,
            Turn::Medium => self.is_dealt_by_chunks(bytes),
            Turn::Long => true,
        }
    }

    /// Returns the channel of the next section of a message that is dealt by chunks, with this much
    /// left, and the bytes of a chunk there.
    pub(super) fn next_chunk(&self, left: u64) -> (u16, u64) {
        let waiting = [Turn::Medium, Turn::Long].map(|turn| self.queues[turn as usize].len());
        let channel = match waiting.iter().sum::<usize>() {
            ..=1 => self.channels.first_of_last(left),
            _ => self.channels.first(),
        };
        (channel, self.channels.chunk_bytes_on(channel))
    }

    /// Notes that this much of a message that costs `total` was sent.
    pub(super) fn sent(&mut self, total: u64, cost: u64) {
        if total > self.tuning.short_bytes {
            self.under_way = self.under_way.saturating_sub(cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;
    use crate::frames::fields::Delivery;
    use crate::peer::tags::matcher::PostedReceive;
    use crate::plans::plan::Member;
    use crate::types::{MemoryType, RegistrationKey, Span, TransferKey};

    const MIB: u64 = 1 << 20;

    fn send(op: OpKey, bytes: u64) -> MatchedSend {
        let registration = RegistrationKey::default();
        let span = Span { registration, address: 0, memory: MemoryType::Host };
        let member = Member { op, transfer: TransferKey::default(), span, bytes, tag: 7 };
        let delivery = Delivery::Unpacked;
        MatchedSend { member, announced: PostedReceive { recv: 0, bytes, delivery, number: 0 } }
    }

    /// Deals everything in the order of its turns, what is not short in `sections` sections.
    /// Returns the operation of each plan or section.
    fn schedule_all(schedule: &mut Schedule, sections: usize) -> Vec<OpKey> {
        let mut scheduled = Vec::new();
        while let Some(turn) = schedule.turn() {
            let front = *schedule.queue(turn).front().expect("it has its turn");
            let op = match front {
                Waiting::Listed(op) => op,
                Waiting::Send(first) => first.member.op,
            };
            scheduled.push(op);
            let is_last = scheduled.iter().filter(|it| **it == op).count() == sections;
            schedule.scheduled_section((turn, op), MIB, is_last || turn == Turn::Short);
        }
        scheduled
    }

    /// Sends, reads and writes of one size are scheduled in the order in which they may move; long
    /// ones a section at a time, to the end.
    #[test]
    fn messages_of_all_kinds_are_one_queue() {
        let mut keys = SlotMap::<OpKey, ()>::with_key();
        let [a, b, c] = [0; 3].map(|_| keys.insert(()));
        for (bytes, sections) in [(64, 1), (MIB, 1), (9 * MIB, 3)] {
            let mut schedule = Schedule::new(Tuning::new(512 << 10, 1000), 2);
            schedule.push(send(a, bytes));
            schedule.push_access(b, bytes, Lane::Channels);
            schedule.push(send(c, 64));
            let expected = match bytes {
                64 => vec![a, b, c],
                _ => [vec![c], vec![a; sections], vec![b; sections]].concat(),
            };
            assert_eq!(schedule_all(&mut schedule, sections), expected, "{bytes}");
        }
    }

    /// A message of a chunk is cut while channels have little to send. Behind others it stays
    /// whole, and so it does once a channel is lost whose share was missing.
    #[test]
    fn channels_are_busy_with_half_a_chunk_each() {
        const CHUNK: u64 = 512 << 10;
        let mut schedule = Schedule::new(Tuning::new(CHUNK as u32, 1000).pipelined(), 4);
        let is_cut = |schedule: &Schedule| u64::from(schedule.chunk_bytes_of(CHUNK, CHUNK)) < CHUNK;
        assert!(is_cut(&schedule));
        schedule.scheduled(Turn::Medium, CHUNK);
        assert!(is_cut(&schedule), "two channels have nothing to do");
        schedule.scheduled(Turn::Long, CHUNK);
        assert!(!is_cut(&schedule));
        schedule.sent(CHUNK, 1);
        assert!(is_cut(&schedule));
        schedule.channels.lose(3);
        assert!(!is_cut(&schedule));
    }

    /// The peer knows of the match of a long message as soon as a section of it is scheduled.
    #[test]
    fn a_match_is_owed_until_something_of_it_is_dealt() {
        let mut keys = SlotMap::<OpKey, ()>::with_key();
        let mut schedule = Schedule::new(Tuning::new(512 << 10, 1000), 2);
        assert!(!schedule.may_owe_match(7));
        schedule.push_access(keys.insert(()), 9 * MIB, Lane::Channels);
        assert!(!schedule.may_owe_match(7), "reads and writes have no tag");
        schedule.queue(Turn::Long).pop();
        let op = keys.insert(());
        schedule.push(send(op, 9 * MIB));
        assert!(schedule.may_owe_match(7) && !schedule.may_owe_match(8));
        schedule.scheduled_section((Turn::Long, op), MIB, false);
        assert!(!schedule.may_owe_match(7));
        schedule.push(send(keys.insert(()), 64));
        assert!(schedule.may_owe_match(7));
    }
}
