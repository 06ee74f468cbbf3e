//! Tuner that decides whether to spin for a moment before a thread sleeps. Pure.
//!
//! A poll costs less than sleeping and being woken, but only where the other end runs meanwhile. On
//! a core that both share, each would wait until the other has used up its time. So recent waits
//! decide, including those in which the thread slept.

use std::time::Duration;

/// Maximum count of short waits. A burst of them outweighs the long waits around it.
const MOST: i8 = 8;
/// Count that a long wait takes away if it began with spinning.
const LOSS: i8 = 2;
/// Number of short waits that must follow before a thread spins again whose spinning kept another
/// thread from running.
const PENALTY: i8 = 32;

/// Record of recent waits.
#[derive(Debug)]
pub(crate) struct SpinTuner {
    longest: Duration,
    score: i8,
    /// Whether the last wait that spun kept another thread from running.
    is_warned: bool,
}

impl SpinTuner {
    /// Makes a tuner for spins of at most this time; zero: never.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, score: 0, is_warned: false }
    }

    /// Returns how long the wait that begins may spin.
    pub(crate) fn begin(&self) -> Duration {
        if self.score > 0 { self.longest } else { Duration::ZERO }
    }

    /// Records that a wait is over. `time`: its length; `spun`: how much of that it spun.
    pub(crate) fn ended(&mut self, time: Duration, spun: Duration) {
        let slept = time.saturating_sub(spun);
        // The awaited event came as soon as this thread slept, or had let another thread have the
        // processor. Once, this may have been a wait that took a little longer than others.
        let is_in_the_way = time >= self.longest && !spun.is_zero() && slept < self.longest;
        self.score = if time < self.longest {
            (self.score + 1).min(MOST)
        } else if spun.is_zero() {
            self.score
        } else if is_in_the_way {
            if self.is_warned { -PENALTY } else { 0 }
        } else {
            (self.score - LOSS).max(-PENALTY)
        };
        if !spun.is_zero() {
            self.is_warned = is_in_the_way;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(50);

    /// Returns how many of `waits` waits spin. `wait` returns the length of a wait that spins for
    /// at most its argument.
    fn spins(tuner: &mut SpinTuner, waits: u32, wait: impl Fn(Duration) -> Duration) -> u32 {
        let spin = |_: &u32| {
            let longest = tuner.begin();
            let time = wait(longest);
            tuner.ended(time, longest.min(time));
            !longest.is_zero()
        };
        (0..waits).filter(spin).count() as u32
    }

    #[test]
    fn spins_while_waits_are_short_and_not_while_they_are_long() {
        let mut tuner = SpinTuner::new(LONGEST);
        assert_eq!(spins(&mut tuner, 100, |_| 20 * LONGEST), 0);
        assert_eq!(spins(&mut tuner, 100, |_| LONGEST / 2), 99, "the first one shows it");
        assert_eq!(spins(&mut tuner, 100, |_| 20 * LONGEST), u32::from((MOST / LOSS) as u8));
    }

    #[test]
    fn a_long_wait_between_bursts_does_not_end_it() {
        let mut tuner = SpinTuner::new(LONGEST);
        for burst in 0..100 {
            let spun = spins(&mut tuner, 6, |_| LONGEST / 2);
            assert!(spun == 6 || burst == 0 && spun == 5, "burst {burst}: {spun}");
            spins(&mut tuner, 1, |_| 100 * LONGEST);
        }
    }

    #[test]
    fn who_is_in_the_way_of_what_it_waits_for_seldom_spins() {
        // The other end runs when this one sleeps, and not before.
        let shared_core = |spun: Duration| spun + LONGEST / 5;
        // A thread that gives the processor away while it spins has it again after a long time.
        let busy = |spun: Duration| if spun.is_zero() { LONGEST / 5 } else { 40 * LONGEST };
        let mut tuner = SpinTuner::new(LONGEST);
        let spun = spins(&mut tuner, 1_000, shared_core);
        assert!((1..=2 + 1_000 / PENALTY as u32).contains(&spun), "{spun}");
        let mut tuner = SpinTuner::new(LONGEST);
        let spin = |_: &u32| {
            let longest = tuner.begin();
            let time = busy(longest);
            // The whole wait was spent in the loop.
            tuner.ended(time, if longest.is_zero() { longest } else { time });
            !longest.is_zero()
        };
        let spun = (0..1_000).filter(spin).count();
        assert!((1..=2 + 1_000 / PENALTY as usize).contains(&spun), "{spun}");
    }

    #[test]
    fn one_wait_that_takes_a_little_longer_changes_little() {
        let mut tuner = SpinTuner::new(LONGEST);
        for _ in 0..100 {
            spins(&mut tuner, 10, |_| LONGEST / 2);
            spins(&mut tuner, 1, |_| LONGEST + LONGEST / 5);
            assert_eq!(spins(&mut tuner, 10, |_| LONGEST / 2), 9, "the first one shows it");
        }
    }

    #[test]
    fn never_spins_when_it_may_not() {
        let mut tuner = SpinTuner::new(Duration::ZERO);
        assert_eq!(spins(&mut tuner, 1_000, |_| Duration::ZERO), 0);
    }
}
