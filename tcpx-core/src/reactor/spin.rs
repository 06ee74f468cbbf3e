//! Whether it pays to look again and again for a moment before a thread sleeps. Pure.
//!
//! A look costs less than sleeping and being woken, but only where the other end runs meanwhile. On
//! a core that both share, each would wait until the other has burnt its time. So what recent
//! waits were like decides; now and then it is tried again.

use std::time::Duration;

/// Waits that paid count up to so many.
const MOST: u8 = 8;
/// How much one that did not pay takes away.
const LOSS: u8 = 2;
/// While it does not pay, one wait in so many tries.
const TRY_EVERY: u8 = 64;

/// What recent waits were like.
#[derive(Debug)]
pub(crate) struct SpinTuner {
    longest: Duration,
    score: u8,
    waits: u8,
}

impl SpinTuner {
    /// Spins for at most this time; zero: never.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, score: 0, waits: 0 }
    }

    /// How long the wait that begins may spin.
    pub(crate) fn begin(&mut self) -> Duration {
        if self.score > 0 {
            return self.longest;
        }
        self.waits = (self.waits + 1) % TRY_EVERY;
        if self.waits == 0 { self.longest } else { Duration::ZERO }
    }

    /// A wait has spun. `paid`: something happened before its time was over.
    pub(crate) fn spun(&mut self, paid: bool) {
        self.score = match paid {
            true => (self.score + 1).min(MOST),
            false => self.score.saturating_sub(LOSS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(50);

    /// How many of so many waits spin, when each pays or none does.
    fn spins(tuner: &mut SpinTuner, waits: u32, paid: bool) -> u32 {
        let spin = |_: &u32| {
            let spins = !tuner.begin().is_zero();
            if spins {
                tuner.spun(paid);
            }
            spins
        };
        (0..waits).filter(spin).count() as u32
    }

    #[test]
    fn spins_where_that_pays_and_tries_now_and_then_where_it_does_not() {
        let mut tuner = SpinTuner::new(LONGEST);
        let tries = 640 / u32::from(TRY_EVERY);
        assert_eq!(spins(&mut tuner, 640, false), tries, "the other end shares the core");
        assert_eq!(
            spins(&mut tuner, 640, true),
            640 - u32::from(TRY_EVERY) + 1,
            "from the first try"
        );
        let rest = u32::from(MOST / LOSS);
        assert!(spins(&mut tuner, 640, false) <= rest + tries, "it stops at once");
    }

    #[test]
    fn never_spins_when_it_may_not() {
        let mut tuner = SpinTuner::new(Duration::ZERO);
        assert_eq!(spins(&mut tuner, 1_000, true), 0);
    }
}
