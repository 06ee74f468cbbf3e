//! Loads of the channels, and how fast they are beside each other: which channel gets the next
//! chunk. Pure.
//!
//! Channels over NICs of different speed would end at different times, were as much dealt to each.
//! So a chunk goes to the channel on which it ends first. How fast channels are is seen without a
//! clock: by what leaves each while all have something to send. Small differences are chance, and
//! do not count.

use crate::plans::plan::{ChunkPlan, chunk_count};

/// Chunks for each channel that leave between two looks at what the channels have sent.
const CHUNKS_SEEN: u64 = 4;
/// Slowness of the fastest channel, and of all that are about as fast.
const FASTEST: u64 = 16;
/// Slowness from which on a channel is slower than others: half as slow again.
const SLOWER: u64 = FASTEST * 3 / 2;
/// Most by which one channel is taken to be slower than another.
const SLOWEST: u64 = FASTEST * 16;
/// Share of what others send that is credited to a channel with nothing to send. So a channel that
/// was slow is tried again.
const CREDITED: u64 = 16;

/// One channel.
#[derive(Clone, Copy, Debug)]
struct ChannelLoad {
    /// Bytes that were dealt and are not sent.
    bytes: u64,
    /// Bytes that were sent while all channels had some, of long ago less.
    sent: u64,
    /// Time that it takes for as many bytes, where the fastest one takes [`FASTEST`].
    slowness: u64,
}

/// The channels of one peer.
#[derive(Debug)]
pub(in super::super) struct ChannelLoads {
    channels: Box<[ChannelLoad]>,
    chunk_bytes: u64,
    /// Channel behind the last that something was dealt to.
    next: u16,
    /// Bytes that have left since the channels were compared.
    seen: u64,
    /// Whether a channel is slower than another.
    are_unequal: bool,
}

impl ChannelLoads {
    pub(super) fn new(channels: u16, chunk_bytes: u32) -> Self {
        let idle = ChannelLoad { bytes: 0, sent: 0, slowness: FASTEST };
        Self {
            channels: vec![idle; channels.into()].into(),
            chunk_bytes: chunk_bytes.into(),
            next: 0,
            seen: 0,
            are_unequal: false,
        }
    }

    /// Begins with the first channel again, among those with the least to send.
    pub(in super::super) fn rewind(&mut self) {
        self.next = 0;
    }

    /// Returns whether it matters which channel a chunk goes to: channels differ in what they have
    /// left to send by as much, or in how fast they are.
    pub(super) fn differ(&self) -> bool {
        let loads = self.channels.iter().map(|channel| channel.bytes);
        let (least, most) = (loads.clone().min(), loads.max());
        self.are_unequal
            || most.zip(least).is_some_and(|(most, least)| most - least >= self.chunk_bytes)
    }

    /// Returns the channel on which one more chunk would end first, and of several the first from
    /// the next one on.
    pub(in super::super) fn first(&self) -> u16 {
        let channels = self.channels.len() as u16;
        let from_next = (0..channels).map(|step| (self.next + step) % channels);
        let end_of = |channel: &u16| {
            let ChannelLoad { bytes, slowness, .. } = self.channels[usize::from(*channel)];
            bytes.saturating_add(self.chunk_bytes).saturating_mul(slowness)
        };
        from_next.min_by_key(end_of).unwrap_or(0)
    }

    /// Returns the channel of the first of this many bytes; what is scheduled next begins behind
    /// their last.
    pub(in super::super) fn take(&mut self, bytes: u64, chunk_bytes: u32) -> u16 {
        let channel = self.first();
        let behind = u64::from(channel) + chunk_count(bytes, chunk_bytes);
        self.next = (behind % self.channels.len() as u64) as u16;
        channel
    }

    /// Notes that the chunks of a plan were dealt to their channels.
    pub(in super::super) fn dealt(&mut self, plan: &ChunkPlan) {
        let channels = self.channels.len();
        for chunk in 0..chunk_count(plan.bytes, plan.chunk_bytes) {
            let left = plan.bytes - chunk * u64::from(plan.chunk_bytes);
            let channel = (usize::from(plan.first_channel) + chunk as usize) % channels;
            self.channels[channel].bytes += left.min(plan.chunk_bytes.into());
        }
    }

    /// Notes that this many bytes have left a channel.
    pub(in super::super) fn finished(&mut self, sent_on: Option<u16>, bytes: u64) {
        let Some(index) = sent_on.map(usize::from).filter(|it| *it < self.channels.len()) else {
            return;
        };
        let most = self.channels.iter().map(|channel| channel.sent).max().unwrap_or_default();
        let mut all_send = true;
        for idle in self.channels.iter_mut().filter(|channel| channel.bytes == 0) {
            all_send = false;
            idle.sent = most.min(idle.sent.saturating_add(bytes / CREDITED));
        }
        let channel = &mut self.channels[index];
        channel.bytes = channel.bytes.saturating_sub(bytes);
        if all_send {
            channel.sent = channel.sent.saturating_add(bytes);
        }
        self.seen = self.seen.saturating_add(bytes);
        if self.seen >= CHUNKS_SEEN * self.chunk_bytes * self.channels.len() as u64 {
            self.compare();
        }
    }

    /// Compares the channels by what they have sent. Half of it counts the next time, too.
    fn compare(&mut self) {
        self.seen = 0;
        let most = self.channels.iter().map(|channel| channel.sent).max().unwrap_or_default();
        for channel in &mut self.channels {
            let slowness = most.saturating_mul(FASTEST) / channel.sent.max(1);
            channel.slowness = match slowness {
                ..SLOWER => FASTEST,
                slower => slower.min(SLOWEST),
            };
            channel.sent /= 2;
        }
        self.are_unequal = self.channels.iter().any(|channel| channel.slowness > FASTEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::plan::Members;

    const CHUNK: u32 = 512 << 10;

    fn deal(loads: &mut ChannelLoads, bytes: u64) -> u16 {
        let first_channel = loads.take(bytes, CHUNK);
        let members = Members::Many(Vec::new());
        let (offset, chunk_bytes, gathered) = (0, CHUNK, None);
        loads.dealt(&ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, gathered });
        first_channel
    }

    /// Deals chunks by single ones, and always this many are under way. Each channel sends a chunk
    /// in as many turns as `slowness` says. Returns how many each has sent, and the turns until all
    /// have.
    fn send<const N: usize>(
        loads: &mut ChannelLoads,
        slowness: [u64; N],
        chunks: u64,
        ahead: u64,
    ) -> ([u64; N], u64) {
        let (mut queued, mut sent, mut left) = ([0; N], [0; N], chunks);
        for turn in 1.. {
            while left > 0 && queued.iter().sum::<u64>() < ahead {
                queued[usize::from(deal(loads, CHUNK.into()))] += 1;
                left -= 1;
            }
            for channel in 0..N {
                if queued[channel] > 0 && turn % slowness[channel] == 0 {
                    queued[channel] -= 1;
                    sent[channel] += 1;
                    loads.finished(Some(channel as u16), CHUNK.into());
                }
            }
            if sent.iter().sum::<u64>() == chunks {
                return (sent, turn);
            }
        }
        unreachable!("turns do not end")
    }

    /// Channels that are as fast get as much, in turns, and it matters only where they differ by a
    /// chunk.
    #[test]
    fn chunks_go_to_the_channel_that_has_the_least() {
        let mut loads = ChannelLoads::new(3, CHUNK);
        assert!(!loads.differ());
        assert_eq!(deal(&mut loads, 4 * u64::from(CHUNK)), 0);
        // Two chunks on the first channel, one on each of the others.
        assert!(loads.differ());
        assert_eq!([(); 2].map(|()| deal(&mut loads, CHUNK.into())), [1, 2]);
        assert!(!loads.differ());
        loads.finished(Some(1), 1);
        assert_eq!((loads.differ(), loads.first()), (false, 1));
        loads.finished(None, CHUNK.into());
        loads.finished(Some(9), CHUNK.into());
        loads.finished(Some(2), u64::MAX);
        assert_eq!((loads.differ(), loads.first()), (true, 2));
    }

    /// Two channels, one four times as fast as the other, end at the same time, but for a chunk of
    /// the slow one; and so do eight as fast ones.
    #[test]
    fn channels_end_together_however_fast_they_are() {
        let mut loads = ChannelLoads::new(2, CHUNK);
        let warmed_up = send(&mut loads, [4, 1], 100, 8);
        assert!(warmed_up.1 <= 88, "{warmed_up:?}");
        for _ in 0..20 {
            let ([slow, fast], turns) = send(&mut loads, [4, 1], 50, 8);
            assert!(turns <= 44 && slow + fast == 50, "{slow} and {fast} in {turns}");
        }
        let mut loads = ChannelLoads::new(8, CHUNK);
        let (sent, turns) = send(&mut loads, [1; 8], 800, 32);
        assert_eq!((sent, turns), ([100; 8], 100));
        assert!(!loads.differ());
    }

    /// Half as slow again is not slower: channels of one NIC are never quite as fast.
    #[test]
    fn small_differences_do_not_count() {
        let mut loads = ChannelLoads::new(2, CHUNK);
        send(&mut loads, [5, 4], 200, 8);
        assert!(!loads.differ());
        send(&mut loads, [8, 4], 200, 8);
        assert!(loads.differ());
    }

    /// A channel that was far too slow is tried again before long, and gets as much as another once
    /// it is as fast.
    #[test]
    fn a_channel_that_was_slow_is_tried_again() {
        let mut loads = ChannelLoads::new(2, CHUNK);
        let ([slow, _], _) = send(&mut loads, [100, 1], 400, 8);
        assert!((1..=12).contains(&slow), "{slow}");
        send(&mut loads, [1, 1], 64, 8);
        let (sent, turns) = send(&mut loads, [1, 1], 100, 8);
        assert_eq!((sent, turns), ([50, 50], 50));
    }

    /// A channel that sends nothing holds no more than it was dealt, and the other goes on.
    #[test]
    fn a_channel_that_stands_still_gets_no_more() {
        let mut loads = ChannelLoads::new(2, CHUNK);
        let mut dealt = [0; 2];
        for _ in 0..1000 {
            let channel = usize::from(deal(&mut loads, CHUNK.into()));
            dealt[channel] += 1;
            loads.finished(Some(1), CHUNK.into());
        }
        assert!(dealt[0] <= 2 && dealt[1] >= 998, "{dealt:?}");
    }
}
