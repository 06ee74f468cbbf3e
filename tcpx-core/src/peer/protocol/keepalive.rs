//! Signs of life of one peer: when to ask for one, and when it has been silent for too long. Pure.
//!
//! Only silence that somebody here was there to hear counts: a program that makes no progress for a
//! while, or is stopped, does not hold its own absence against its peers.

use std::time::{Duration, Instant};

/// A silent link is asked for a sign of life this often, so that an error can say how long a peer
/// was silent.
const PING_AFTER: Duration = Duration::from_secs(2);

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Ask it for a sign of life.
    Ping,
    /// It makes progress by itself and was asked, and has been silent for so long: it is frozen.
    Frozen(Duration),
}

/// Looks in a row at which the peer's host was overdue: what was only just sent is acknowledged by
/// the next one.
const OVERDUE_LOOKS: u32 = 2;

/// Watches one peer.
#[derive(Debug)]
pub(super) struct Keepalive {
    ping_after: Duration,
    /// Longest silence of a peer that makes progress by itself; `None` when silence means nothing.
    limit: Option<Duration>,
    heard_at: Instant,
    looked_at: Instant,
    /// Silence that was listened to.
    silence: Duration,
    pinged_at: Option<Duration>,
    timeout: Option<Duration>,
    overdue_looks: u32,
}

impl Keepalive {
    /// Watches from now on. `peer_progresses`: the peer has a progress thread.
    pub(super) fn new(timeout: Option<Duration>, peer_progresses: bool, now: Instant) -> Self {
        Self {
            // Several pings fit into the time, so that one that is late is not the end.
            ping_after: timeout.map_or(PING_AFTER, |timeout| PING_AFTER.min(timeout / 4)),
            limit: timeout.filter(|_| peer_progresses),
            heard_at: now,
            looked_at: now,
            silence: Duration::ZERO,
            pinged_at: None,
            timeout,
            overdue_looks: 0,
        }
    }

    /// To be asked with each ping. `unacknowledged`: how long the peer's host has acknowledged
    /// nothing, if something waits for it. Whether the host, or the way to it, is gone; this needs
    /// no progress of the peer.
    pub(super) fn is_host_gone(&mut self, unacknowledged: Option<Duration>) -> bool {
        let is_overdue = self
            .timeout
            .zip(unacknowledged)
            .is_some_and(|(timeout, unacknowledged)| unacknowledged >= timeout);
        self.overdue_looks = if is_overdue { self.overdue_looks + 1 } else { 0 };
        self.overdue_looks >= OVERDUE_LOOKS
    }

    /// When a look next finds anything due, if nothing is heard until then.
    pub(super) fn next_look(&self) -> Instant {
        let next_ping = self.pinged_at.unwrap_or_default() + self.ping_after;
        let due = match self.limit.filter(|_| self.pinged_at.is_some()) {
            Some(limit) => next_ping.min(limit),
            None => next_ping,
        };
        self.looked_at + due.saturating_sub(self.silence)
    }

    /// Looks. `heard_at`: when the last byte of the peer was read.
    pub(super) fn look(&mut self, heard_at: Instant, now: Instant) -> Due {
        let since = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        if heard_at > self.heard_at {
            self.heard_at = heard_at;
            self.silence = Duration::ZERO;
            self.pinged_at = None;
            return Due::Nothing;
        }
        self.silence += since.min(self.ping_after);
        if let Some(limit) = self.limit
            && self.silence >= limit
            && self.pinged_at.is_some()
        {
            return Due::Frozen(self.silence);
        }
        let next_ping = self.pinged_at.unwrap_or_default() + self.ping_after;
        if self.silence < next_ping {
            return Due::Nothing;
        }
        self.pinged_at = Some(self.silence);
        Due::Ping
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Looks every `step` ms of a silent peer; the pings' times and the end, in ms.
    fn silence(
        mut heartbeat: Keepalive,
        start: Instant,
        step: u64,
        until: u64,
    ) -> (Vec<u64>, Option<u64>) {
        let mut pings = Vec::new();
        let heard_at = heartbeat.heard_at;
        for at in (0..until).step_by(step as usize) {
            match heartbeat.look(heard_at, start + Duration::from_millis(at)) {
                Due::Nothing => {}
                Due::Ping => pings.push(at),
                Due::Frozen(_) => return (pings, Some(at)),
            }
        }
        (pings, None)
    }

    #[test]
    fn a_silent_peer_is_asked_and_given_up_only_if_it_has_a_thread() {
        let start = Instant::now();
        let beat = |timeout, progresses| Keepalive::new(timeout, progresses, start);
        let pings = vec![2_000, 4_000, 6_000, 8_000];
        assert_eq!(silence(beat(Some(LIMIT), true), start, 100, 60_000), (pings, Some(10_000)));
        let (pings, end) = silence(beat(Some(LIMIT), false), start, 100, 60_000);
        assert_eq!((pings.len(), end), (29, None));
        let (pings, end) = silence(beat(None, true), start, 100, 60_000);
        assert_eq!((pings.len(), end), (29, None));
        let short = Some(Duration::from_secs(1));
        assert_eq!(
            silence(beat(short, true), start, 50, 60_000),
            (vec![250, 500, 750], Some(1_000))
        );
    }

    #[test]
    fn a_host_is_gone_when_it_is_overdue_twice_in_a_row() {
        let mut beat = Keepalive::new(Some(LIMIT), false, Instant::now());
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        // The first ping after an hour without progress has had no time to be acknowledged.
        for (unacknowledged, is_gone) in [
            (seconds(3_600), false),
            (None, false),
            (seconds(10), false),
            (seconds(9), false),
            (seconds(10), false),
            (seconds(12), true),
        ] {
            assert_eq!(beat.is_host_gone(unacknowledged), is_gone, "{unacknowledged:?}");
        }
        let mut endless = Keepalive::new(None, true, Instant::now());
        assert!((0..10).all(|_| !endless.is_host_gone(seconds(3_600))));
    }

    #[test]
    fn our_own_absence_is_not_the_peers_silence() {
        let start = Instant::now();
        let mut heartbeat = Keepalive::new(Some(LIMIT), true, start);
        let hour = start + Duration::from_secs(3_600);
        assert_eq!(heartbeat.look(start, hour), Due::Ping, "asked first");
        let (pings, end) = silence(heartbeat, hour, 100, 60_000);
        assert_eq!((pings.len(), end), (3, Some(8_000)), "and given the time to answer");
    }

    proptest! {
        /// A peer that answers every ping within the time between two of them is never given up,
        /// whenever it is looked at.
        #[test]
        fn a_peer_that_answers_lives(steps in proptest::collection::vec(1u64..5_000, 1..300), delay in 0u64..2_000) {
            let start = Instant::now();
            let mut heartbeat = Keepalive::new(Some(LIMIT), true, start);
            let (mut now, mut heard, mut answer) = (start, start, None);
            for step in steps {
                now += Duration::from_millis(step);
                // Bytes that came while nobody looked are read before looking.
                if answer.is_some_and(|at| at <= now) {
                    answer = None;
                    heard = now;
                }
                match heartbeat.look(heard, now) {
                    Due::Nothing => {}
                    Due::Ping => answer = answer.or(Some(now + Duration::from_millis(delay))),
                    Due::Frozen(silence) => prop_assert!(false, "given up after {silence:?}"),
                }
            }
        }

        /// A peer that never answers is given up, not before its time, and not long after.
        #[test]
        fn a_silent_peer_is_given_up_in_time(steps in proptest::collection::vec(1u64..2_000, 200)) {
            let start = Instant::now();
            let mut heartbeat = Keepalive::new(Some(LIMIT), true, start);
            let mut now = start;
            let mut end = None;
            for step in steps {
                now += Duration::from_millis(step);
                if let Due::Frozen(_) = heartbeat.look(start, now) {
                    end = Some(now - start);
                    break;
                }
            }
            if let Some(end) = end {
                prop_assert!(end >= LIMIT && end < LIMIT + Duration::from_secs(4), "{end:?}");
            } else {
                prop_assert!(now - start < LIMIT + Duration::from_secs(4));
            }
        }
    }
}
