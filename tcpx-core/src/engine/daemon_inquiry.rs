//! What RxDM answers while something is under way that may wait for it.

use std::time::{Duration, Instant};

use tcpx_diagnosis::Code;

use crate::workers::Workers;
use crate::workers::ticket::Task;

/// How long it is good that nothing is wrong. RxDM may log that it was asked.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// Questions to RxDM, one after the other.
#[derive(Debug, Default)]
pub(super) struct DaemonInquiry {
    /// The question that is under way.
    question: Option<Task<Option<Code>>>,
    answered_at: Option<Instant>,
    /// What the last answer says.
    found: Option<Code>,
    /// Answers in a row that say that something is wrong.
    times: u32,
    has_asked: bool,
}

impl DaemonInquiry {
    /// Takes an answer that has come. Asks, if nothing is asked: again at once where something was
    /// wrong, since RxDM may only have been busy, or be well by now; after a while where nothing
    /// was.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        workers: &Workers,
        ask: impl FnOnce() -> Option<Code> + Send + 'static,
    ) {
        if let Some(question) = &self.question {
            let Some(found) = question.take() else { return };
            self.question = None;
            self.answered_at = Some(now);
            self.found = found;
            self.times = if found.is_some() { self.times.saturating_add(1) } else { 0 };
        }
        let is_good = |at: Instant| now.saturating_duration_since(at) < GOOD_FOR;
        if self.found.is_none() && self.answered_at.is_some_and(is_good) {
            return;
        }
        self.has_asked = true;
        self.question = Some(workers.call(ask));
    }

    /// What is wrong with RxDM, as far as is known.
    pub(super) fn found(&self) -> Option<Code> {
        self.found
    }

    /// Whether something was wrong at least twice in a row.
    pub(super) fn is_certain(&self) -> bool {
        self.times >= 2
    }

    /// Whether it was asked at all.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(id: &str) -> Option<Code> {
        id.parse().ok()
    }

    /// Asks, and waits until the answer is there to be taken.
    fn ask(inquiry: &mut DaemonInquiry, workers: &Workers, now: Instant, answer: Option<Code>) {
        inquiry.go_on(now, workers, move || answer);
        assert!(workers.finish(Duration::from_secs(60)), "it answers");
    }

    #[test]
    fn what_is_wrong_is_certain_when_it_was_seen_twice() {
        let (workers, now) = (Workers::default(), Instant::now());
        let mut inquiry = DaemonInquiry::default();
        assert!(!inquiry.has_asked());
        ask(&mut inquiry, &workers, now, code("TCPX-505"));
        assert!(inquiry.has_asked() && inquiry.found().is_none());
        ask(&mut inquiry, &workers, now, None);
        assert_eq!((inquiry.found(), inquiry.is_certain()), (code("TCPX-505"), false));
        // It was only busy.
        ask(&mut inquiry, &workers, now, code("TCPX-506"));
        assert_eq!((inquiry.found(), inquiry.is_certain()), (None, false));
        let later = now + GOOD_FOR;
        ask(&mut inquiry, &workers, later, code("TCPX-506"));
        ask(&mut inquiry, &workers, later, code("TCPX-504"));
        ask(&mut inquiry, &workers, later, None);
        assert_eq!((inquiry.found(), inquiry.is_certain()), (code("TCPX-504"), true));
    }

    #[test]
    fn an_rxdm_that_is_well_is_left_in_peace_for_a_while() {
        let (workers, now) = (Workers::default(), Instant::now());
        let mut inquiry = DaemonInquiry::default();
        ask(&mut inquiry, &workers, now, None);
        ask(&mut inquiry, &workers, now, code("TCPX-505"));
        assert!(inquiry.question.is_none(), "the first answer is good");
        ask(&mut inquiry, &workers, now + GOOD_FOR, code("TCPX-505"));
        inquiry.go_on(now + GOOD_FOR, &workers, || None);
        assert_eq!(inquiry.found(), code("TCPX-505"));
    }
}
