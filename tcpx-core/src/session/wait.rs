//! How a thread waits: spins first, then yields, then sleeps longer and longer.

use std::time::{Duration, Instant};

/// First and longest sleep of a thread that finds nothing to do.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);
/// After the spin time a thread yields for this long before it sleeps.
const YIELD_TIME: Duration = Duration::from_micros(500);

/// What a round of progress has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Nothing,
    Something,
    /// Something, and there is a backlog left to withdraw, a slice of it in each round. Whoever
    /// goes on at once would keep the lock from all others until the last slice.
    Slice,
}

/// Until when to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    started_at: Instant,
    ends_at: Option<Instant>,
}

impl WaitLimit {
    pub(crate) fn for_time(time: Duration) -> Self {
        let started_at = Instant::now();
        Self { started_at, ends_at: started_at.checked_add(time) }
    }

    pub(crate) fn endless() -> Self {
        Self { started_at: Instant::now(), ends_at: None }
    }
}

/// What an idle thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Spin,
    Yield,
    Sleep(Duration),
}

/// Remembers for how long nothing has moved.
#[derive(Debug)]
pub(crate) struct Waiter {
    limit: WaitLimit,
    spin: Duration,
    idle_since: Option<Instant>,
    sleep: Duration,
}

impl Waiter {
    pub(crate) fn new(limit: WaitLimit, spin: Duration) -> Self {
        Self { limit, spin, idle_since: None, sleep: FIRST_SLEEP }
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.limit.ends_at.is_some_and(|ends_at| now >= ends_at)
    }

    pub(crate) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.limit.started_at)
    }

    /// Waits a moment, after a round that has done this.
    pub(crate) fn pause(&mut self, moved: Moved, now: Instant) {
        match self.next(moved, now) {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => std::thread::yield_now(),
            Pause::Sleep(time) => std::thread::sleep(time),
        }
    }

    fn next(&mut self, moved: Moved, now: Instant) -> Pause {
        if moved != Moved::Nothing {
            self.idle_since = None;
            self.sleep = FIRST_SLEEP;
        }
        match moved {
            Moved::Something => return Pause::Spin,
            Moved::Slice => return Pause::Sleep(FIRST_SLEEP.min(self.rest(now))),
            Moved::Nothing => {}
        }
        let idle = now.saturating_duration_since(*self.idle_since.get_or_insert(now));
        if idle < self.spin {
            return Pause::Spin;
        }
        if idle < self.spin + YIELD_TIME {
            return Pause::Yield;
        }
        let sleep = self.sleep.min(self.rest(now));
        self.sleep = (self.sleep * 2).min(LONGEST_SLEEP);
        Pause::Sleep(sleep)
    }

    /// The longest sleep that ends in time.
    fn rest(&self, now: Instant) -> Duration {
        let ends_at = self.limit.ends_at;
        ends_at.map_or(LONGEST_SLEEP, |ends_at| ends_at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_then_yields_then_sleeps_until_something_moves() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut waiter = Waiter::new(WaitLimit::endless(), Duration::from_micros(50));
        assert_eq!(waiter.next(Moved::Nothing, at(0)), Pause::Spin);
        assert_eq!(waiter.next(Moved::Nothing, at(49)), Pause::Spin);
        assert_eq!(waiter.next(Moved::Nothing, at(50)), Pause::Yield);
        assert_eq!(waiter.next(Moved::Nothing, at(549)), Pause::Yield);
        assert_eq!(waiter.next(Moved::Nothing, at(550)), Pause::Sleep(FIRST_SLEEP));
        assert_eq!(waiter.next(Moved::Nothing, at(600)), Pause::Sleep(2 * FIRST_SLEEP));
        assert_eq!(waiter.next(Moved::Something, at(700)), Pause::Spin);
        assert_eq!(waiter.next(Moved::Nothing, at(800)), Pause::Spin);
        assert_eq!(waiter.next(Moved::Slice, at(900)), Pause::Sleep(FIRST_SLEEP));
    }

    #[test]
    fn never_sleeps_past_its_deadline() {
        let limit = WaitLimit::for_time(Duration::from_millis(10));
        let mut waiter = Waiter::new(limit, Duration::ZERO);
        let almost = limit.started_at + Duration::from_micros(9_990);
        waiter.idle_since = Some(limit.started_at);
        assert_eq!(waiter.next(Moved::Nothing, almost), Pause::Sleep(Duration::from_micros(10)));
        assert_eq!(waiter.next(Moved::Slice, almost), Pause::Sleep(Duration::from_micros(10)));
        assert!(!waiter.is_over(almost));
        assert!(waiter.is_over(limit.started_at + Duration::from_millis(10)));
    }
}
