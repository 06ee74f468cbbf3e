//! Checks of the session's counters: a slow unpack backend, sends without a receive, payload
//! that is copied. Pure.

use std::time::{Duration, Instant};

use tcpx_unpack::{Backend, MemoryKind};

use crate::stats::ChannelStats;

/// Number of chunks before a check counts.
const ENOUGH_CHUNKS: u64 = 64;
/// Number of copies for each chunk at which d2d is slow: each costs a call of the driver.
const MANY_COPIES: u64 = 8;

/// Returns whether the chunks received so far were unpacked slowly. Ordinary memory has no backend
/// faster than a plain copy.
pub(crate) fn is_slow(memory: MemoryKind, backend: Backend, received: &ChannelStats) -> bool {
    if memory == MemoryKind::Host {
        return false;
    }
    let ChannelStats { chunks, fragments, fragments_merged, .. } = *received;
    if chunks < ENOUGH_CHUNKS || fragments == 0 {
        return false;
    }
    match backend {
        Backend::Host => true,
        Backend::D2d => fragments.saturating_sub(fragments_merged) >= MANY_COPIES * chunks,
        _ => false,
    }
}

/// Factor by which sends wait longer before they are reported, when the peer has posted no
/// receive: it may still be busy.
const ONE_SIDED: u32 = 3;

/// Sending direction of a peer at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatchSample {
    /// Number of sends of this session without a receive.
    pub(crate) sends: usize,
    /// Number of receives posted by the peer that match no send of this session.
    pub(crate) announced: usize,
    /// Number of sends that were matched so far.
    pub(crate) met: u64,
}

/// Results of earlier checks.
#[derive(Debug, Default)]
pub(crate) struct MatchWatch {
    met: u64,
    since: Option<Instant>,
}

impl MatchWatch {
    /// Restarts the waiting times.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// Returns for how long sends have waited while no send found its receive, if that is too long.
    /// Receives that wait are no trouble: programs post them early.
    pub(crate) fn check(
        &mut self,
        sample: MatchSample,
        stall_after: Duration,
        now: Instant,
    ) -> Option<Duration> {
        if sample.sends == 0 || sample.met != self.met {
            self.met = sample.met;
            self.since = None;
        }
        if sample.sends == 0 {
            return None;
        }
        let waited = now.saturating_duration_since(*self.since.get_or_insert(now));
        let limit =
            if sample.announced > 0 { stall_after } else { stall_after.saturating_mul(ONE_SIDED) };
        (waited >= limit).then_some(waited)
    }
}

/// Number of first bytes of a chunk that are checked.
pub(crate) const SAMPLE_BYTES: usize = 64;
/// Number of first chunks of a lane after which zeros alone are trouble.
const ZERO_CHUNKS: u32 = 16;

/// Check of the first chunks of a lane, until a byte is found that is not 0.
#[derive(Debug, Default)]
pub(crate) struct PayloadWatch {
    zeros: u32,
    is_over: bool,
}

impl PayloadWatch {
    /// Returns whether the next chunk must be checked.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_over && self.zeros < ZERO_CHUNKS
    }

    /// Checks the first bytes of a chunk. Fewer than [`SAMPLE_BYTES`] zeros are not significant.
    pub(crate) fn check(&mut self, bytes: &[u8]) {
        if bytes.iter().any(|byte| *byte != 0) {
            self.is_over = true;
        } else if bytes.len() == SAMPLE_BYTES {
            self.zeros += 1;
        }
    }

    /// Returns whether all of the first chunks were zeros.
    pub(crate) fn is_all_zero(&self) -> bool {
        !self.is_over && self.zeros >= ZERO_CHUNKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: MemoryKind = MemoryKind::Cuda { gpu: 0 };

    fn received(chunks: u64, copies: u64) -> ChannelStats {
        let (fragments, fragments_merged) = (128 * chunks, (128 - copies) * chunks);
        ChannelStats { chunks, fragments, fragments_merged, ..ChannelStats::default() }
    }

    #[test]
    fn slow_is_host_for_a_gpu_and_d2d_with_many_copies() {
        for (memory, backend, received, expected) in [
            (GPU, Backend::Host, received(64, 1), true),
            (GPU, Backend::Host, received(63, 1), false),
            (GPU, Backend::D2d, received(64, 8), true),
            (GPU, Backend::D2d, received(64, 7), false),
            (GPU, Backend::Kernel, received(1000, 128), false),
            (MemoryKind::Host, Backend::Host, received(1000, 128), false),
        ] {
            assert_eq!(is_slow(memory, backend, &received), expected, "{backend} {received:?}");
        }
    }

    #[test]
    fn what_needs_no_unpacking_is_not_slow() {
        let direct = ChannelStats { chunks: 1000, ..ChannelStats::default() };
        assert!(
            !is_slow(GPU, Backend::Host, &direct),
            "host memory is received straight into place"
        );
    }

    const STALL: Duration = Duration::from_secs(10);

    /// Returns the second of the first alarm, if there is one within 100.
    fn first(sample: impl Fn(u64) -> MatchSample) -> Option<u64> {
        let (mut watch, start) = (MatchWatch::default(), Instant::now());
        (0..100).find(|&second| {
            watch.check(sample(second), STALL, start + Duration::from_secs(second)).is_some()
        })
    }

    #[test]
    fn sends_and_receives_that_wait_for_others_have_different_tags() {
        assert_eq!(first(|_| MatchSample { sends: 1, announced: 1, met: 5 }), Some(10));
    }

    #[test]
    fn a_send_alone_may_wait_longer_and_a_receive_for_ever() {
        assert_eq!(first(|_| MatchSample { sends: 1, announced: 0, met: 5 }), Some(30));
        assert_eq!(first(|_| MatchSample { sends: 0, announced: 9, met: 5 }), None);
    }

    #[test]
    fn nothing_is_stuck_while_other_sends_are_matched() {
        assert_eq!(first(|second| MatchSample { sends: 4, announced: 4, met: second }), None);
    }

    #[test]
    fn zeros_from_the_first_chunk_on_are_noticed() {
        let mut watch = PayloadWatch::default();
        for _ in 0..ZERO_CHUNKS {
            assert!(watch.is_active() && !watch.is_all_zero());
            watch.check(&[0; 8]);
            watch.check(&[0; SAMPLE_BYTES]);
        }
        assert!(watch.is_all_zero() && !watch.is_active());
    }

    #[test]
    fn one_other_byte_ends_the_watch() {
        let mut watch = PayloadWatch::default();
        watch.check(&[0; SAMPLE_BYTES]);
        watch.check(&[0, 0, 1]);
        assert!(!watch.is_active() && !watch.is_all_zero());
    }
}
