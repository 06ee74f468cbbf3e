//! Loads of the channels, and how fast they are beside each other: which channel gets the next
//! chunk. Pure.
//!
//! Channels over NICs of different speed would end at different times, were as much dealt to each.
//! So a chunk goes to the channel on which it ends first, and a slower channel gets shorter ones.
//! It gets none of the end of a message that the fastest would send in the same time.
//!
//! How fast channels are is seen without a clock: by what leaves each while all have something to
//! send. What leaves a channel first after a rest says nothing: a socket takes it before its NIC
//! sends it. Small differences are chance, and do not count.

use smallvec::SmallVec;

use crate::plans::channel_set::ChannelSet;
use crate::plans::plan::{ChunkPlan, chunk_count};

/// Chunks for each channel that leave between two looks at what the channels have sent.
const CHUNKS_SEEN: u64 = 4;
/// Chunks that a channel may hold which count as sent: what a socket takes ahead of its NIC.
const CHUNKS_HELD: u64 = 2;
/// Slowness of the fastest channel, and of all that are about as fast.
const FASTEST: u64 = 16;
/// Slowness from which on a channel is slower than others: half as slow again.
const SLOWER: u64 = FASTEST * 3 / 2;
/// Most by which one channel is taken to be slower than another.
const SLOWEST: u64 = FASTEST * 16;
/// Share of what others send that is credited to a channel with nothing to send. So a channel that
/// was slow is tried again.
const CREDITED: u64 = 16;
/// A chunk of a slow channel is a number of these.
const PAGE_BYTES: u64 = 4096;

/// One channel.
#[derive(Clone, Copy, Debug)]
struct ChannelLoad {
    /// Bytes that were dealt and are not sent.
    bytes: u64,
    /// Bytes that were sent since the channels rested.
    since_rest: u64,
    /// Bytes that were sent while all channels had some, since the channels were compared.
    seen: u64,
    /// The same before they were compared, of long ago less.
    sent: u64,
    /// Time that it takes for as many bytes, where the fastest one takes [`FASTEST`].
    slowness: u64,
}

impl ChannelLoad {
    /// Bytes that are not sent, or that may be on their way to the NIC.
    fn ahead(&self, held: u64) -> u64 {
        self.bytes.saturating_add(self.since_rest.min(held))
    }
}

/// The channels of one peer.
#[derive(Debug)]
pub(in super::super) struct ChannelLoads {
    channels: Box<[ChannelLoad]>,
    /// Channels that are not lost.
    open: ChannelSet,
    chunk_bytes: u64,
    /// Least bytes of a chunk of a slow channel.
    shortest_chunk: u64,
    /// Channel behind the last that something was dealt to.
    next: u16,
    /// Bytes that have left since the channels were compared.
    seen: u64,
    /// Whether a channel is slower than another.
    are_unequal: bool,
}

impl ChannelLoads {
    /// Makes channels that are as fast, with chunks of `chunk_bytes`, and where a channel is slow
    /// down to `shortest_chunk`.
    pub(super) fn new(channels: u16, chunk_bytes: u32, shortest_chunk: u32) -> Self {
        let (bytes, since_rest, seen, sent) = (0, 0, 0, 0);
        let idle = ChannelLoad { bytes, since_rest, seen, sent, slowness: FASTEST };
        Self {
            channels: vec![idle; channels.into()].into(),
            open: ChannelSet::first(channels),
            chunk_bytes: chunk_bytes.into(),
            shortest_chunk: shortest_chunk.into(),
            next: 0,
            seen: 0,
            are_unequal: false,
        }
    }

    /// Returns the channels that chunks are dealt to.
    pub(in super::super) fn set(&self) -> ChannelSet {
        self.open
    }

    fn open(&self) -> impl Iterator<Item = &ChannelLoad> + Clone {
        let open = self.open;
        (0..).zip(&self.channels).filter(move |(at, _)| open.has(*at)).map(|(_, load)| load)
    }

    /// Deals nothing more to a channel.
    pub(in super::super) fn lose(&mut self, channel: u16) {
        self.open = self.open.without(channel);
        self.next = self.open.behind(channel, 0);
    }

    /// Returns the channels, those with the least to send first.
    pub(in super::super) fn by_load(&self) -> impl Iterator<Item = u16> {
        let mut channels: SmallVec<[u16; 8]> = self.open.iter().collect();
        channels.sort_by_key(|channel| self.channels[usize::from(*channel)].bytes);
        channels.into_iter()
    }

    /// Notes that what a lost channel had left goes to another one.
    pub(in super::super) fn redealt(&mut self, lost: u16, onto: u16) {
        if let Some(load) = self.channels.get_mut(usize::from(lost)) {
            let bytes = std::mem::take(&mut load.bytes);
            self.channels[usize::from(onto)].bytes += bytes;
        }
    }

    /// Begins with the first channel again, among those with the least to send, if all have rested:
    /// its sockets and threads were used last, and are faster than those that rest longer.
    pub(in super::super) fn rewind_if_idle(&mut self) {
        if self.channels.iter().any(|channel| channel.bytes > 0) {
            return;
        }
        self.next = self.open.behind(0, 0);
        self.seen = 0;
        for channel in &mut self.channels {
            (channel.since_rest, channel.seen) = (0, 0);
        }
    }

    /// Returns whether it matters which channel a chunk goes to: channels differ in what they have
    /// left to send by as much, or in how fast they are.
    pub(super) fn differ(&self) -> bool {
        let loads = self.open().map(|channel| channel.bytes);
        let (least, most) = (loads.clone().min(), loads.max());
        self.are_unequal
            || most.zip(least).is_some_and(|(most, least)| most - least >= self.chunk_bytes)
    }

    /// Returns whether a channel is slower than another.
    pub(super) fn are_unequal(&self) -> bool {
        self.are_unequal
    }

    /// Returns the channel on which one more chunk would end first, and of several the first from
    /// the next one on.
    pub(in super::super) fn first(&self) -> u16 {
        let end_of = |channel: &u16| {
            let ChannelLoad { bytes, slowness, .. } = self.channels[usize::from(*channel)];
            bytes.saturating_add(self.chunk_bytes_on(*channel)).saturating_mul(slowness)
        };
        self.channels_in_turn().min_by_key(end_of).unwrap_or(0)
    }

    /// Returns the channel of the next chunk where this many bytes are left and nothing waits
    /// behind them: a fast one, if that sends all of them before a slow one would end.
    pub(super) fn first_of_last(&self, left: u64) -> u16 {
        let first = self.first();
        if !self.are_unequal {
            return first;
        }
        let held = CHUNKS_HELD * self.chunk_bytes;
        let load = |channel: u16| &self.channels[usize::from(channel)];
        let order = |channel: &u16| (load(*channel).slowness, load(*channel).ahead(held));
        let Some(fastest) = self.channels_in_turn().min_by_key(order) else { return first };
        let (slow, fast) = (load(first), load(fastest));
        let as_fast = self.open().filter(|it| it.slowness == fast.slowness).count();
        let end_of = |channel: &ChannelLoad, bytes: u64| {
            channel.ahead(held).saturating_add(bytes).saturating_mul(channel.slowness)
        };
        let is_late = end_of(slow, left.min(self.chunk_bytes_on(first)))
            > end_of(fast, left / as_fast.max(1) as u64);
        if slow.slowness > fast.slowness && is_late { fastest } else { first }
    }

    /// Returns the bytes of a chunk for a channel: a slow one takes no longer for it, but for the
    /// shortest.
    pub(super) fn chunk_bytes_on(&self, channel: u16) -> u64 {
        let slowness = self.channels.get(usize::from(channel)).map_or(FASTEST, |it| it.slowness);
        if slowness == FASTEST {
            return self.chunk_bytes;
        }
        let share = self.chunk_bytes * FASTEST / slowness / PAGE_BYTES * PAGE_BYTES;
        share.clamp(self.shortest_chunk.min(self.chunk_bytes), self.chunk_bytes)
    }

    /// Returns the channels in their turn, from the next one on.
    fn channels_in_turn(&self) -> impl Iterator<Item = u16> {
        let (next, open) = (self.next, self.open);
        (0..open.count()).map(move |step| open.behind(next, step.into()))
    }

    /// Returns the channel of the first of this many bytes, which [`first`](Self::first) names;
    /// what is scheduled next begins behind their last.
    pub(in super::super) fn take(&mut self, bytes: u64, chunk_bytes: u32) -> u16 {
        let channel = self.first();
        self.go_behind(channel, bytes, chunk_bytes);
        channel
    }

    /// Has what is scheduled next begin behind the last of this many bytes.
    pub(in super::super) fn go_behind(&mut self, channel: u16, bytes: u64, chunk_bytes: u32) {
        self.next = self.open.behind(channel, chunk_count(bytes, chunk_bytes));
    }

    /// Notes that the chunks of a plan were dealt to their channels.
    pub(in super::super) fn dealt(&mut self, plan: &ChunkPlan) {
        for chunk in 0..chunk_count(plan.bytes, plan.chunk_bytes) {
            let left = plan.bytes - chunk * u64::from(plan.chunk_bytes);
            let channel = plan.channels.behind(plan.first_channel, chunk);
            self.channels[usize::from(channel)].bytes += left.min(plan.chunk_bytes.into());
        }
    }

    /// Notes that this many bytes have left a channel.
    pub(in super::super) fn finished(&mut self, sent_on: Option<u16>, bytes: u64) {
        let Some(index) = sent_on.map(usize::from).filter(|it| *it < self.channels.len()) else {
            return;
        };
        let held = CHUNKS_HELD * self.chunk_bytes;
        let channel = &mut self.channels[index];
        let before = channel.since_rest;
        channel.since_rest = before.saturating_add(bytes);
        let counted = channel.since_rest.max(held) - before.max(held);
        let most = self.open().map(|channel| channel.seen).max().unwrap_or_default();
        let (open, mut all_send) = (self.open, true);
        let is_idle = |(at, load): &(u16, &mut ChannelLoad)| open.has(*at) && load.bytes == 0;
        for (_, idle) in (0..).zip(&mut self.channels).filter(is_idle) {
            all_send = false;
            idle.seen = most.min(idle.seen.saturating_add(counted / CREDITED));
        }
        let channel = &mut self.channels[index];
        channel.bytes = channel.bytes.saturating_sub(bytes);
        if all_send {
            channel.seen = channel.seen.saturating_add(counted);
        }
        self.seen = self.seen.saturating_add(counted);
        if self.seen >= CHUNKS_SEEN * self.chunk_bytes * u64::from(self.open.count()) {
            self.compare();
        }
    }

    /// Compares the channels by what they have sent. Half of it counts the next time, too.
    fn compare(&mut self) {
        self.seen = 0;
        for channel in &mut self.channels {
            channel.sent = channel.sent.saturating_add(channel.seen);
            channel.seen = 0;
        }
        let most = self.open().map(|channel| channel.sent).max().unwrap_or_default();
        for channel in &mut self.channels {
            let slowness = most.saturating_mul(FASTEST) / channel.sent.max(1);
            channel.slowness = match slowness {
                ..SLOWER => FASTEST,
                slower => slower.min(SLOWEST),
            };
            channel.sent /= 2;
        }
        let are_unequal = self.open().any(|channel| channel.slowness > FASTEST);
        self.are_unequal = are_unequal;
    }
}

#[cfg(test)]
mod tests;
