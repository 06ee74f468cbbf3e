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
//! Chunks go to the channel that has the least to send, and to those behind it. Channels are not
//! equally fast. So the next section of a long message is a single chunk once they differ by as
//! much as a chunk, and a slow channel holds up only what it has been dealt.
//!
//! Each of the three is one queue, for sends, reads and writes alike, in the order in which they
//! may move. Nothing starves: a short message waits for what is under way, which is bounded, and a
//! section for a bounded number of short ones. What travels on the link has a queue of its own: the
//! kernel's buffer bounds how much of it is under way.

pub(super) mod coalescer;
mod link_queue;
pub(super) mod route;
pub(super) mod staging;
pub mod tuning;

use std::collections::TryReserveError;

use self::coalescer::{Coalescer, MatchedSend, Waiting};
use self::link_queue::LinkQueue;
use self::staging::StagingChannels;
use self::tuning::Tuning;
use super::message::Lane;
use crate::plans::plan::{ChunkPlan, chunk_count};
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
    /// Bytes of each channel that were dealt and are not sent.
    loads: Box<[u64]>,
    pub(super) next_channel: u16,
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
            loads: vec![0; channels.into()].into(),
            next_channel: 0,
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

    /// Returns whether nothing of medium and long messages is on its way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way == 0
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

    /// Returns the number of bytes of the next section of a message that costs `total`. Where
    /// channels differ in what they have left to send, each chunk of a long message goes to the one
    /// that has the least.
    pub(super) fn section_bytes(&self, total: u64) -> u64 {
        let Tuning { section_bytes, chunk_bytes, .. } = self.tuning;
        let least = self.loads.iter().min().copied().unwrap_or_default();
        let most = self.loads.iter().max().copied().unwrap_or_default();
        match total > section_bytes && most - least >= chunk_bytes.into() {
            true => chunk_bytes.into(),
            false => section_bytes,
        }
    }

    /// Returns the channel that has the least to send, and of several the first from the next one
    /// on.
    pub(super) fn first_channel(&self) -> u16 {
        let channels = self.loads.len() as u16;
        let from_next = (0..channels).map(|step| (self.next_channel + step) % channels);
        from_next.min_by_key(|channel| self.loads[usize::from(*channel)]).unwrap_or(0)
    }

    /// Returns the channel of the first of this many bytes; what is scheduled next begins behind
    /// their last.
    pub(super) fn take_channels(&mut self, bytes: u64, chunk_bytes: u32) -> u16 {
        let channel = self.first_channel();
        let behind = u64::from(channel) + chunk_count(bytes, chunk_bytes);
        self.next_channel = (behind % self.loads.len() as u64) as u16;
        channel
    }

    /// Notes that the chunks of a plan were dealt to their channels.
    pub(super) fn dealt(&mut self, plan: &ChunkPlan) {
        let channels = self.loads.len();
        for chunk in 0..chunk_count(plan.bytes, plan.chunk_bytes) {
            let left = plan.bytes - chunk * u64::from(plan.chunk_bytes);
            let channel = (usize::from(plan.first_channel) + chunk as usize) % channels;
            self.loads[channel] += left.min(plan.chunk_bytes.into());
        }
    }

    /// Notes that this many bytes have left a channel.
    pub(super) fn finished(&mut self, sent_on: Option<u16>, bytes: u64) {
        let load = sent_on.and_then(|channel| self.loads.get_mut(usize::from(channel)));
        if let Some(load) = load {
            *load = load.saturating_sub(bytes);
        }
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
    use crate::plans::plan::Members;
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

    /// The channel with the least comes first. Only a long message is dealt by single chunks, and
    /// only where channels differ by as much as one.
    #[test]
    fn chunks_go_to_the_channel_that_has_the_least() {
        let chunk_bytes = 512 << 10;
        let mut schedule = Schedule::new(Tuning::new(chunk_bytes, 1000), 3);
        let section = schedule.section_bytes(u64::MAX);
        assert_eq!((section, schedule.first_channel()), (4 * MIB, 0));
        let deal = |schedule: &mut Schedule, bytes| {
            let first_channel = schedule.take_channels(bytes, chunk_bytes);
            let members = Members::Many(Vec::new());
            schedule.dealt(&ChunkPlan {
                members,
                offset: 0,
                bytes,
                chunk_bytes,
                first_channel,
                gathered: None,
            });
            first_channel
        };
        assert_eq!(deal(&mut schedule, 2 * MIB), 0);
        // Two chunks on the first channel, one on each of the others.
        assert_eq!(schedule.section_bytes(u64::MAX), u64::from(chunk_bytes));
        assert_eq!(schedule.section_bytes(section), section);
        assert_eq!([(); 2].map(|()| deal(&mut schedule, chunk_bytes.into())), [1, 2]);
        assert_eq!(schedule.section_bytes(u64::MAX), section);
        schedule.finished(Some(1), 1);
        assert_eq!((schedule.section_bytes(u64::MAX), schedule.first_channel()), (section, 1));
        schedule.finished(None, MIB);
        schedule.finished(Some(9), MIB);
        schedule.finished(Some(2), u64::MAX);
        assert_eq!(schedule.first_channel(), 2);
        assert_eq!(schedule.section_bytes(u64::MAX), u64::from(chunk_bytes));
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
