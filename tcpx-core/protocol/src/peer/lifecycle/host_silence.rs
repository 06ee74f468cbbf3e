//! Clock of a silent host: how long the peer's host has acknowledged nothing, while this end was
//! there to see it. Pure.
//!
//! The system says when the last acknowledgement came. On a link that was idle that may be an hour
//! ago, though what waits for one now was only just sent. So the time counts since the ping that
//! waits, or since something else was first seen to, and before that only the pause after which a
//! ping is due anyway.

use std::time::{Duration, Instant};

/// Most that the system's clock and ours may differ by. An acknowledgement this close before a
/// look, or before a ping, may have come after it.
const CLOCKS_DIFFER: Duration = Duration::from_millis(50);

/// Watches one host.
#[derive(Debug)]
pub(in super::super) struct HostSilence {
    /// The longest that is borne; `None`: anything.
    timeout: Option<Duration>,
    /// The longest time between two looks that counts, and before the first.
    pause: Duration,
    looked_at: Instant,
    /// For how long something was seen to wait with nothing acknowledged; `None`: nothing waits.
    waited: Option<Duration>,
}

impl HostSilence {
    /// Makes the clock. `pause`: the time after which a silent peer is asked for a sign of life.
    pub(in super::super) fn new(timeout: Option<Duration>, pause: Duration, now: Instant) -> Self {
        Self { timeout, pause, looked_at: now, waited: None }
    }

    /// Takes a look. `unacknowledged`: how long no acknowledgement has come, if something waits for
    /// one. `pinged`: how long ago the last ping was sent. Returns how long the host was silent, if
    /// that is too long.
    pub(in super::super) fn look(
        &mut self,
        unacknowledged: Option<Duration>,
        pinged: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let since = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        let differ = CLOCKS_DIFFER.min(self.pause / 8);
        self.waited = unacknowledged.map(|silence| match self.waited {
            Some(waited) if silence >= since + differ => waited + since.min(self.pause),
            // Nothing was acknowledged since the ping, so that waits too.
            _ if silence >= pinged + differ => pinged.min(self.pause),
            _ => Duration::ZERO,
        });
        let silence = unacknowledged?.min(self.waited? + self.pause);
        (silence >= self.timeout?).then_some(silence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_secs(2);

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// Looks at these times, in ms, of a host that acknowledged at `acknowledged` for the last
    /// time; something waits for it from `sent` on. When it is gone.
    fn gone_at(looks: impl IntoIterator<Item = u64>, acknowledged: u64, sent: u64) -> Option<u64> {
        let start = Instant::now();
        let mut host = HostSilence::new(Some(TIMEOUT), PAUSE, start);
        looks.into_iter().find(|at| {
            let unacknowledged = (*at >= sent).then(|| ms(at.saturating_sub(acknowledged)));
            host.look(unacknowledged, ms(0), start + ms(*at)).is_some()
        })
    }

    #[test]
    fn a_host_that_answers_nothing_is_gone_in_time() {
        assert_eq!(gone_at((0..60_000).step_by(250), 0, 2_000), Some(10_000));
        // Seldom looked at it is gone later, and not never.
        assert_eq!(gone_at((0..60_000).step_by(3_000), 0, 2_000), Some(15_000));
    }

    #[test]
    fn what_was_only_just_sent_is_not_overdue_however_long_the_link_was_idle() {
        let hour = 3_600_000;
        let looks = std::iter::once(0).chain((hour..2 * hour).step_by(250));
        assert_eq!(gone_at(looks, 0, hour), Some(hour + 8_000));
    }

    #[test]
    fn an_old_acknowledgement_does_not_count_for_what_was_sent_after() {
        let start = Instant::now();
        let mut host = HostSilence::new(Some(TIMEOUT), PAUSE, start);
        assert_eq!(host.look(Some(ms(0)), ms(0), start), None);
        // Acknowledged right after the look, as the system's clock has it before the look. Then no
        // look is taken for an hour, and something new is on its way.
        let hour = ms(3_600_000);
        assert_eq!(host.look(Some(hour), PAUSE, start + hour), None);
        assert_eq!(host.look(None, PAUSE, start + hour + ms(250)), None);
    }

    #[test]
    fn a_ping_waits_since_it_was_sent_unless_something_was_acknowledged_after_it() {
        // The ping was sent 1.5 s before the first look.
        for (silence, expected) in [(4_000, 6_500), (1_000, 9_000)] {
            let start = Instant::now();
            let mut host = HostSilence::new(Some(TIMEOUT), PAUSE, start);
            let gone = (0..60_000).step_by(250).find(|passed| {
                let unacknowledged = Some(ms(silence + passed));
                host.look(unacknowledged, ms(1_500 + passed), start + ms(*passed)).is_some()
            });
            assert_eq!(gone, Some(expected), "the last acknowledgement came {silence} ms before");
        }
    }

    #[test]
    fn without_a_limit_no_host_is_ever_gone() {
        let start = Instant::now();
        let mut host = HostSilence::new(None, PAUSE, start);
        for second in 0..100 {
            let time = Duration::from_secs(60 * second);
            assert_eq!(host.look(Some(time), ms(0), start + time), None);
        }
    }

    proptest! {
        /// A host that acknowledges what it is sent within two thirds of the limit is never gone,
        /// whenever it is looked at and whatever is sent.
        #[test]
        fn a_host_that_acknowledges_lives(
            steps in proptest::collection::vec((1u64..100_000, any::<bool>()), 1..300),
            delay in 0u64..6_600,
        ) {
            let start = Instant::now();
            let mut host = HostSilence::new(Some(TIMEOUT), PAUSE, start);
            let (mut now, mut acknowledged, mut due, mut pinged) = (0, 0, None, None);
            for (step, sends) in steps {
                now += step;
                if let Some(at) = due.filter(|at| *at <= now) {
                    (acknowledged, due) = (at, None);
                }
                if sends {
                    due = due.or(Some(now + delay));
                    pinged = Some(now);
                }
                let unacknowledged = due.map(|_| ms(now - acknowledged));
                let pinged = ms(pinged.map_or(0, |at: u64| now - at));
                prop_assert_eq!(host.look(unacknowledged, pinged, start + ms(now)), None);
            }
        }

        /// A host that acknowledges nothing any more, and is asked after the usual pause, is gone:
        /// not before its time, and not more than three looks after.
        #[test]
        fn a_host_that_is_gone_is_noticed(
            steps in proptest::collection::vec(1u64..250, 400), sent in 0u64..2_000,
        ) {
            let looks: Vec<u64> = steps
                .into_iter()
                .scan(0, |now, step| {
                    *now += step;
                    Some(*now)
                })
                .collect();
            let last = looks.last().copied().unwrap_or_default();
            match gone_at(looks, 0, sent) {
                Some(at) => prop_assert!((10_000..10_750).contains(&at), "{}", at),
                None => prop_assert!(last < 10_750),
            }
        }
    }
}
