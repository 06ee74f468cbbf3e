//! Sends that no receive is found for.

use std::time::{Duration, Instant};

/// Sends wait so many times longer before they are reported when the peer has announced no receive:
/// it may still be busy.
const ONE_SIDED: u32 = 3;

/// The sending direction of a peer as it is now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatchSample {
    /// Sends of ours without a receive.
    pub(crate) sends: usize,
    /// Receives that the peer announced without a send of ours.
    pub(crate) announced: usize,
    /// Sends that found their receive so far.
    pub(crate) met: u64,
}

/// What was seen before.
#[derive(Debug, Default)]
pub(crate) struct MatchWatch {
    met: u64,
    since: Option<Instant>,
}

impl MatchWatch {
    /// Waiting times begin anew.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// How long sends have waited while not a single one found its receive, if that is too long.
    /// Receives that wait are no trouble: they are posted ahead of their sends.
    pub(crate) fn look(
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

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(10);

    /// The second of the first alarm, if there is one within 100.
    fn first(sample: impl Fn(u64) -> MatchSample) -> Option<u64> {
        let (mut watch, start) = (MatchWatch::default(), Instant::now());
        (0..100).find(|&second| {
            watch.look(sample(second), STALL, start + Duration::from_secs(second)).is_some()
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
    fn as_long_as_others_are_met_nothing_is_stuck() {
        assert_eq!(first(|second| MatchSample { sends: 4, announced: 4, met: second }), None);
    }
}
