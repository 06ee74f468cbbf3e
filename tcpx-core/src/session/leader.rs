//! The leading thread: it makes the rounds, and waits for events of the system in between.

use std::time::{Duration, Instant};

use super::wait::WaitLimit;
use crate::engine::round::Rest;
use crate::reactor::poller::{IoEvent, Poller};
use crate::reactor::spin::SpinTuner;

/// Shortest and longest pause between two polls where no event reports that something has happened.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// State that passes from one leading thread to the next.
#[derive(Debug)]
pub(super) struct LeaderState {
    /// Events for the next round.
    pub(super) events: Vec<IoEvent>,
    /// Time until which nothing is due, unless something happens before. `None`: not known.
    rest_until: Option<Instant>,
    spin: SpinTuner,
    longest_spin: Duration,
    /// Time since which nothing that must be polled has moved.
    idle_since: Option<Instant>,
    pause: Duration,
}

impl LeaderState {
    pub(super) fn new(longest_spin: Duration) -> Self {
        Self {
            events: Vec::new(),
            rest_until: None,
            spin: SpinTuner::new(longest_spin),
            longest_spin,
            idle_since: None,
            pause: FIRST_PAUSE,
        }
    }

    /// Records the rest after a round of a thread that does not wait.
    pub(super) fn set_rest(&mut self, rest: Rest, moved: bool) {
        self.rest_until = match rest {
            Rest::Until(at) if !moved => Some(at),
            _ => None,
        };
    }

    /// Records that rounds are made by a thread that waits after them.
    pub(super) fn clear_rest(&mut self) {
        self.rest_until = None;
    }

    /// Returns whether the last round has left nothing to do before this time, except for later
    /// events.
    pub(super) fn is_resting(&self, now: Instant) -> bool {
        self.rest_until.is_some_and(|until| now < until)
    }

    /// Returns the time for which an event loop may wait for the next round. `moved`: the last
    /// round moved something.
    pub(super) fn next_alarm(&mut self, rest: Rest, moved: bool, now: Instant) -> Duration {
        self.reset_pause(rest, moved);
        match rest {
            Rest::None => Duration::ZERO,
            Rest::Poll => self.take_pause(),
            Rest::Until(at) => at.saturating_duration_since(now),
        }
    }

    /// Begins pauses anew when something has moved, or nothing must be polled.
    fn reset_pause(&mut self, rest: Rest, moved: bool) {
        if moved || rest != Rest::Poll {
            self.idle_since = None;
            self.pause = FIRST_PAUSE;
        }
    }

    /// Returns the next pause, which is longer than the one before.
    fn take_pause(&mut self) -> Duration {
        let next = (2 * self.pause).min(LONGEST_PAUSE);
        std::mem::replace(&mut self.pause, next)
    }

    /// Waits until the next round is due, at most until the limit. `moved`: the last round moved
    /// something.
    pub(super) fn pause(&mut self, poller: &Poller, rest: Rest, moved: bool, limit: WaitLimit) {
        let now = Instant::now();
        self.reset_pause(rest, moved);
        match rest {
            Rest::None => drop(poller.look(&mut self.events)),
            Rest::Poll => self.poll(poller, now, limit),
            Rest::Until(at) => {
                let time = limit.clamp(at.saturating_duration_since(now), now);
                let spun = self.spin(poller, now, time);
                if !spun.is_over {
                    poller.wait(time.saturating_sub(spun.time), &mut self.events);
                }
                // The end of a short limit says nothing about events.
                let has_happened = !self.events.is_empty() || poller.has_work();
                let waited = now.elapsed();
                if has_happened || waited >= self.longest_spin {
                    self.spin.ended(waited, spun.time);
                }
            }
        }
    }

    /// Polls at once for a moment, then after longer and longer pauses.
    fn poll(&mut self, poller: &Poller, now: Instant, limit: WaitLimit) {
        let since = *self.idle_since.get_or_insert(now);
        if now.saturating_duration_since(since) < self.longest_spin {
            if !poller.look(&mut self.events) {
                std::thread::yield_now();
            }
            return;
        }
        let pause = self.take_pause();
        poller.wait_precisely(limit.clamp(pause, now), &mut self.events);
    }

    /// Polls in a loop while a result is likely, for at most this time.
    fn spin(&mut self, poller: &Poller, began: Instant, most: Duration) -> SpinResult {
        let longest = self.spin.begin().min(most);
        let mut time = Duration::ZERO;
        while time < longest {
            let is_over = poller.look(&mut self.events) || poller.has_work();
            time = began.elapsed();
            if is_over {
                return SpinResult { is_over, time };
            }
            // The other end may be waiting for this core.
            std::thread::yield_now();
        }
        SpinResult { is_over: false, time }
    }
}

/// Result of spinning.
#[derive(Clone, Copy, Debug)]
struct SpinResult {
    /// Whether something has happened.
    is_over: bool,
    time: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_loop_asks_less_and_less_often_while_nothing_moves() {
        let (mut lead, now) = (LeaderState::new(Duration::ZERO), Instant::now());
        let mut alarm = |moved| lead.next_alarm(Rest::Poll, moved, now);
        assert_eq!(alarm(true), FIRST_PAUSE);
        assert!((0..10).map(|_| alarm(false)).is_sorted());
        assert_eq!(alarm(false), LONGEST_PAUSE);
        assert_eq!(alarm(true), FIRST_PAUSE);
        assert_eq!(lead.next_alarm(Rest::Until(now + LONGEST_PAUSE), false, now), LONGEST_PAUSE);
        assert_eq!(lead.next_alarm(Rest::Poll, false, now), FIRST_PAUSE);
    }

    #[test]
    fn a_rest_lasts_until_its_time_and_only_where_nothing_moved() {
        let (mut lead, now) = (LeaderState::new(Duration::ZERO), Instant::now());
        let later = now + LONGEST_PAUSE;
        assert!(!lead.is_resting(now), "there was no round");
        for (rest, moved, is_resting) in [
            (Rest::Until(later), false, true),
            (Rest::Until(later), true, false),
            (Rest::None, false, false),
            (Rest::Poll, false, false),
        ] {
            lead.set_rest(rest, moved);
            assert_eq!((lead.is_resting(now), lead.is_resting(later)), (is_resting, false));
        }
        lead.set_rest(Rest::Until(later), false);
        lead.clear_rest();
        assert!(!lead.is_resting(now));
    }

    #[test]
    fn no_pause_outlasts_its_limit_however_long_it_may_spin() {
        const LONG: Duration = Duration::from_secs(60);
        let (mut lead, poller) = (LeaderState::new(LONG), Poller::new().unwrap());
        let began = Instant::now();
        // Enough pauses for a thread that spins.
        for _ in 0..100 {
            let limit = WaitLimit::for_time(Duration::from_millis(1));
            lead.pause(&poller, Rest::Until(began + LONG), false, limit);
            lead.pause(&poller, Rest::Until(Instant::now()), false, WaitLimit::for_time(LONG));
        }
        assert!(began.elapsed() < LONG);
    }
}
