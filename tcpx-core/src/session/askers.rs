//! Programs that ask for progress again and again, and so make it themselves.
//!
//! The progress thread is in their way then: on a machine whose processors they all use, it takes
//! what the system says, and has no processor to act on it. So it stands back while they ask often.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long the progress thread stands back before it looks whether they still ask.
pub(super) const STAND_BACK: Duration = Duration::from_micros(200);
/// How long at most, where they have asked all the time: each look takes the processor of one of
/// them. So long may a peer wait once, after they have stopped.
pub(super) const LONGEST_STAND_BACK: Duration = Duration::from_millis(1);
/// Whoever asks at least so often needs no thread beside it.
const OFTEN: Duration = Duration::from_micros(50);
/// Fewer questions say nothing about how often they come.
const FEWEST: u32 = 4;
/// Whoever is answered for so long, because there is much to do, could have asked once more.
const ANSWER: Duration = Duration::from_micros(10);

/// How often the program has asked lately.
#[derive(Debug, Default)]
pub(super) struct Askers {
    questions: AtomicU32,
}

impl Askers {
    /// It has asked once more, and was answered for so long.
    pub(super) fn note(&self, answered: Duration) {
        let more = answered.as_micros() / ANSWER.as_micros();
        // As many as there can be in an hour.
        let more = u32::try_from(more).unwrap_or(1 << 28).min(1 << 28);
        self.questions.fetch_add(1 + more, Ordering::Relaxed);
    }

    /// Whether it has asked often in this time, which has passed since this was called before.
    pub(super) fn have_asked_often(&self, time: Duration) -> bool {
        let questions = self.questions.swap(0, Ordering::Relaxed);
        questions >= FEWEST && time <= OFTEN.saturating_mul(questions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_questions_in_a_short_time_are_often() {
        let askers = Askers::default();
        let are_often = |questions: u32, time: Duration| {
            (0..questions).for_each(|_| askers.note(ANSWER / 2));
            askers.have_asked_often(time)
        };
        assert!(!are_often(0, Duration::ZERO));
        assert!(!are_often(FEWEST - 1, Duration::ZERO));
        assert!(are_often(FEWEST, OFTEN * FEWEST));
        assert!(!are_often(FEWEST, OFTEN * (FEWEST + 1)));
        assert!(!are_often(1_000, Duration::from_secs(1)), "a loop with other work in it");
        assert!(are_often(100, STAND_BACK));
        assert!(!are_often(0, STAND_BACK), "they were counted");
        askers.note(STAND_BACK / 2);
        assert!(askers.have_asked_often(STAND_BACK), "it had long answers");
        askers.note(Duration::MAX);
        assert!(askers.have_asked_often(STAND_BACK));
    }
}
