//! Checks of one lane of a channel: whether it stands still, whether its unpack keeps up, and
//! whether its window is ever full.

use std::time::{Duration, Instant};

use crate::stats::ChannelStats;

/// Number of consecutive checks at which every slot waits for its unpack, before the unpack is
/// behind.
const BEHIND_CHECKS: u32 = 5;
/// Number of posts in a block. The window is judged block by block.
const BLOCK_POSTS: u64 = 64;
/// Number of consecutive starved blocks, each at least as long as the time between two checks,
/// before the window counts as never full.
const STARVED_BLOCKS: u32 = 5;
/// Share of a starved window's slots that its mean occupancy does not exceed: one in
/// `STARVED_SHARE`.
const STARVED_SHARE: u64 = 4;

/// Lane at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneSample {
    /// Counters of the lane.
    pub(crate) stats: ChannelStats,
    /// Number of requests that hold a slot.
    pub(crate) in_flight: usize,
    /// Number of those requests that have arrived and wait for their unpack, or are gathered and
    /// will be posted.
    pub(crate) arrived: usize,
    /// Number of slots.
    pub(crate) window: usize,
    /// Bytes of a whole chunk.
    pub(crate) chunk_bytes: u32,
}

impl LaneSample {
    /// Counts chunks that have their slot and are being gathered.
    pub(crate) fn with_copied(self, chunks: usize) -> Self {
        Self { in_flight: self.in_flight + chunks, arrived: self.arrived + chunks, ..self }
    }
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneState {
    /// Time for which `test` has answered "not yet" for posted requests, with none done meanwhile.
    pub(crate) silent: Duration,
    /// Time for which arrived chunks have waited with none unpacked, or chunks to be sent with none
    /// gathered.
    pub(crate) unpacking: Duration,
    /// Whether at many consecutive checks every slot waited for its unpack.
    pub(crate) is_behind: bool,
    /// Whether large chunks move, but the window has not been full for long.
    pub(crate) is_starved: bool,
    /// Whether the last chunks that were judged filled the window, or more of it than a starved
    /// lane's.
    pub(crate) is_fed: bool,
}

/// Results of earlier checks of a lane.
#[derive(Debug, Default)]
pub(crate) struct LaneWatch {
    last: LaneSample,
    silent_since: Option<Instant>,
    unpacking_since: Option<Instant>,
    behind: u32,
    block: ChannelStats,
    starved: u32,
    is_fed: bool,
}

impl LaneWatch {
    /// Restarts the waiting times: no thread drove the lane for a while, or the peer was not there.
    pub(crate) fn restart(&mut self) {
        self.silent_since = None;
        self.unpacking_since = None;
        self.behind = 0;
    }

    /// Checks the lane.
    pub(crate) fn check(&mut self, sample: LaneSample, now: Instant) -> LaneState {
        let last = std::mem::replace(&mut self.last, sample);
        let has_moved = sample.stats.chunks != last.stats.chunks
            || sample.stats.posts != last.stats.posts
            || sample.arrived != last.arrived;
        let posted = sample.in_flight - sample.arrived.min(sample.in_flight);
        let silent = waited(&mut self.silent_since, posted > 0 && !has_moved, now);
        let unpacking = waited(&mut self.unpacking_since, sample.arrived > 0 && !has_moved, now);
        let is_full = sample.window > 0 && sample.arrived >= sample.window;
        self.behind = if is_full { self.behind + 1 } else { 0 };
        self.judge_block(&sample);
        LaneState {
            silent,
            unpacking,
            is_behind: self.behind >= BEHIND_CHECKS,
            is_starved: self.starved >= STARVED_BLOCKS,
            is_fed: self.is_fed,
        }
    }

    fn judge_block(&mut self, sample: &LaneSample) {
        let (from, to) = (self.block, sample.stats);
        let posts = to.posts - from.posts.min(to.posts);
        if posts < BLOCK_POSTS {
            return;
        }
        self.block = to;
        let chunks = to.chunks.saturating_sub(from.chunks);
        let bytes = to.bytes.saturating_sub(from.bytes);
        let occupancy = to.window_sum.saturating_sub(from.window_sum);
        let is_bulk = chunks > 0 && bytes / chunks >= u64::from(sample.chunk_bytes) / 2;
        let is_shallow = occupancy * STARVED_SHARE <= posts * sample.window as u64;
        let has_waited = (to.window_full, to.credit_waits) != (from.window_full, from.credit_waits);
        let is_starved = is_bulk && is_shallow && !has_waited;
        self.is_fed = is_bulk && !is_starved;
        self.starved = if is_starved { self.starved + 1 } else { 0 };
    }
}

/// Returns for how long `is_waiting` has been true at every check.
fn waited(since: &mut Option<Instant>, is_waiting: bool, now: Instant) -> Duration {
    if !is_waiting {
        // Requests that are there now may begin to wait now.
        *since = Some(now);
        return Duration::ZERO;
    }
    now.saturating_duration_since(*since.get_or_insert(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(in_flight: usize, arrived: usize) -> LaneSample {
        LaneSample { in_flight, arrived, window: 16, chunk_bytes: 65_536, ..LaneSample::default() }
    }

    #[test]
    fn posted_requests_are_silent_while_none_is_done() {
        let (mut watch, start) = (LaneWatch::default(), Instant::now());
        let mut seconds = 0;
        let mut look = |watch: &mut LaneWatch, sample| {
            seconds += 1;
            watch.check(sample, start + seconds * SECOND).silent
        };
        assert_eq!(look(&mut watch, sample(0, 0)), Duration::ZERO);
        assert_eq!(look(&mut watch, sample(3, 0)), SECOND);
        assert_eq!(look(&mut watch, sample(3, 0)), 2 * SECOND);
        let mut moved = sample(3, 0);
        moved.stats.chunks = 1;
        assert_eq!(look(&mut watch, moved), Duration::ZERO, "one is done");
        assert_eq!(look(&mut watch, moved), SECOND);
        watch.restart();
        assert_eq!(look(&mut watch, moved), Duration::ZERO, "the peer was away");
        assert_eq!(look(&mut watch, moved), SECOND);
    }

    #[test]
    fn a_lane_that_waits_for_the_peers_room_is_not_starved() {
        for waits in [0, 1] {
            let (mut watch, start) = (LaneWatch::default(), Instant::now());
            let mut state = None;
            for second in 0..20 {
                let mut now = sample(0, 0);
                let chunks = 100 * u64::from(second);
                (now.stats.posts, now.stats.chunks, now.stats.window_sum) =
                    (chunks, chunks, chunks);
                (now.stats.bytes, now.stats.credit_waits) = (65_536 * chunks, waits * chunks);
                state = Some(watch.check(now, start + second * SECOND));
            }
            assert_eq!(state.map(|state| state.is_starved), Some(waits == 0));
        }
    }

    #[test]
    fn an_idle_lane_is_never_silent() {
        let (mut watch, start) = (LaneWatch::default(), Instant::now());
        for second in 0..100 {
            let state = watch.check(sample(0, 0), start + second * SECOND);
            assert_eq!((state.silent, state.unpacking), (Duration::ZERO, Duration::ZERO));
            assert!(!state.is_behind && !state.is_starved);
        }
    }

    #[test]
    fn a_window_of_arrived_chunks_means_that_unpacking_is_behind() {
        let (mut watch, start) = (LaneWatch::default(), Instant::now());
        for (second, arrived, is_behind) in [
            (0, 16, false),
            (1, 16, false),
            (2, 16, false),
            (3, 16, false),
            (4, 16, true),
            (5, 3, false),
        ] {
            let mut sample = sample(16, arrived);
            sample.stats.chunks = u64::from(second) * 100;
            let state = watch.check(sample, start + second * SECOND);
            assert_eq!(state.is_behind, is_behind, "second {second}");
            assert_eq!(state.unpacking, Duration::ZERO, "it moves");
        }
        let hung = watch
            .check(LaneSample { stats: watch.last.stats, ..sample(4, 3) }, start + 60 * SECOND);
        assert_eq!((hung.unpacking, hung.silent), (55 * SECOND, 55 * SECOND));
    }

    /// Moves this many chunks and checks. `occupancy` requests are in flight at each post.
    fn block(stats: &mut ChannelStats, chunks: u64, occupancy: u64, bytes: u64) -> LaneSample {
        stats.posts += chunks;
        stats.chunks += chunks;
        stats.bytes += chunks * bytes;
        stats.window_sum += chunks * occupancy;
        LaneSample { stats: *stats, ..sample(0, 0) }
    }

    #[test]
    fn large_chunks_one_at_a_time_starve_the_window() {
        let cases = [
            (100, 1, 65_536, 0, true, "one at a time"),
            (100, 4, 40_000, 0, true, "a quarter of the window, more than half a chunk"),
            (100, 5, 65_536, 0, false, "more than a quarter"),
            (100, 1, 4096, 0, false, "small messages are meant to be quick"),
            (100, 1, 65_536, 1, false, "the window was full once"),
            (12, 1, 65_536, 0, false, "five checks, but too few posts to judge"),
        ];
        for (chunks, occupancy, bytes, full, expected, why) in cases {
            let (mut watch, mut stats) = (LaneWatch::default(), ChannelStats::default());
            let mut state = None;
            for second in 0..5 {
                stats.window_full += full;
                let sample = block(&mut stats, chunks, occupancy, bytes);
                state = Some(watch.check(sample, Instant::now() + second * SECOND));
            }
            assert_eq!(state.map(|state| state.is_starved), Some(expected), "{why}");
        }
    }

    #[test]
    fn a_window_that_fills_again_is_not_starved_any_more() {
        let (mut watch, mut stats) = (LaneWatch::default(), ChannelStats::default());
        for _ in 0..6 {
            watch.check(block(&mut stats, 64, 1, 65_536), Instant::now());
        }
        assert!(watch.check(block(&mut stats, 64, 1, 65_536), Instant::now()).is_starved);
        assert!(!watch.check(block(&mut stats, 64, 16, 65_536), Instant::now()).is_starved);
    }
}
