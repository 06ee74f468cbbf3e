//! Programs that ask for progress again and again, and so make it themselves.
//!
//! The progress thread is in their way then: on a machine whose processors they all use, it takes
//! what the system says, and has no processor to act on it. So it stands back while they ask often.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the progress thread stands back before it looks whether they still ask.
pub(super) const STAND_BACK: Duration = Duration::from_micros(200);
/// How long at most, where they have asked all the time: each look takes the processor of one of
/// them. So long may a peer wait once, after they have stopped.
pub(super) const LONGEST_STAND_BACK: Duration = Duration::from_millis(1);
/// Whoever asks at least so often needs no thread beside it.
const OFTEN: Duration = Duration::from_micros(50);
/// Fewer questions say nothing about how often they come.
const FEWEST: u32 = 4;
/// So many since the progress thread has looked, and it should look.
pub(super) const MANY: u32 = 32;
/// Whoever is answered for so long, because there is much to do, could have asked once more.
const ANSWER: Duration = Duration::from_micros(10);

/// How often the program has asked lately.
#[derive(Debug, Default)]
pub(super) struct Askers {
    questions: AtomicU32,
}

impl Askers {
    /// It has asked once more, and was answered for so long. Returns how often it has asked since
    /// counting began.
    pub(super) fn note(&self, answered: Duration) -> u32 {
        let more = answered.as_micros() / ANSWER.as_micros();
        // As many as there can be in an hour.
        let more = u32::try_from(more).unwrap_or(1 << 28).min(1 << 28);
        self.questions.fetch_add(1 + more, Ordering::Relaxed).saturating_add(1 + more)
    }

    /// Whether it has asked often by now, of all questions since `since`. The answer yes, and one
    /// about so long a time that few questions say something too, let counting begin anew.
    ///
    /// A thread that leads looks after each round. Where each operation needs two, fewer questions
    /// come between two looks than say anything, and a count of those would let it lead for ever.
    pub(super) fn have_asked_often(&self, since: &mut Instant, now: Instant) -> bool {
        let time = now.saturating_duration_since(*since);
        let questions = self.questions.load(Ordering::Relaxed);
        let are_often = questions >= FEWEST && time <= OFTEN.saturating_mul(questions);
        if are_often || time >= OFTEN.saturating_mul(FEWEST) {
            *since = now;
            // What comes in between is lost, which is little.
            self.questions.store(0, Ordering::Relaxed);
        }
        are_often
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_questions_in_a_short_time_are_often() {
        let askers = Askers::default();
        let mut since = Instant::now();
        let mut are_often = |questions: u32, time: Duration| {
            for _ in 0..questions {
                askers.note(ANSWER / 2);
            }
            let now = since + time;
            askers.have_asked_often(&mut since, now)
        };
        assert!(!are_often(0, OFTEN * FEWEST));
        assert!(!are_often(FEWEST - 1, OFTEN * FEWEST));
        assert!(are_often(FEWEST, OFTEN * FEWEST));
        assert!(!are_often(FEWEST, OFTEN * (FEWEST + 1)));
        assert!(!are_often(1_000, Duration::from_secs(1)), "a loop with other work in it");
        assert!(are_often(100, STAND_BACK));
        assert!(!are_often(0, STAND_BACK), "they were counted");
        askers.note(STAND_BACK / 2);
        assert!(are_often(0, STAND_BACK), "it had long answers");
        askers.note(Duration::MAX);
        assert!(are_often(0, STAND_BACK));
    }

    #[test]
    fn questions_between_many_looks_count_together() {
        let askers = Askers::default();
        let began = Instant::now();
        let mut since = began;
        // Two of them between one look and the next, time and again.
        let looks = (1..=10).map(|look| {
            askers.note(Duration::ZERO);
            askers.note(Duration::ZERO);
            askers.have_asked_often(&mut since, began + look * OFTEN / 2)
        });
        let seen: Vec<bool> = looks.collect();
        assert_eq!(seen, [false, true].repeat(5));
    }
}
