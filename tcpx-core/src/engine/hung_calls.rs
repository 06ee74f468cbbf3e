//! Knowledge of slow calls of the plugin, and of the daemon that they wait for.
//!
//! Answers of RxDM while a call is under way that may wait for it.

use std::time::{Duration, Instant};

use tcpx_diagnosis::Code;
use tcpx_diagnosis::table::daemon::RXDM_HANGS;

use crate::error::{Error, PluginHang};
use crate::plugin::calls::{CALL_TIMEOUT, LongCall};
use crate::plugin::process;
use crate::types::PeerKey;
use crate::workers::{Task, Workers};

/// Knowledge of slow calls.
#[derive(Debug, Default)]
pub(super) struct HungCalls {
    /// State of RxDM, because of calls that are under way now.
    inquiry: DaemonInquiry,
    /// Whether the daemon was found before the plugin was loaded.
    was_there: bool,
    /// Calls that the log has reported.
    told: Vec<(PeerKey, u16, &'static str)>,
}

impl HungCalls {
    /// Asks RxDM whether it answers, and checks for the answer. `was_there`: whether the daemon was
    /// there before the plugin was loaded.
    pub(super) fn ask_daemon(&mut self, now: Instant, workers: &Workers, was_there: bool) {
        self.was_there = was_there;
        let ask = || process::diagnose_rxdm().map(|finding| finding.id);
        self.inquiry.go_on(now, workers, ask);
    }

    /// Returns the error of a call, if it hangs and its error was not yet reported. A call that
    /// returns is certainly held up when RxDM is. By then a peer of this host waits for it in vain,
    /// and must learn why before its own time is over.
    pub(super) fn news(&mut self, call: LongCall) -> Option<(PeerKey, Error)> {
        let place = (call.peer, call.hang.channel, call.hang.call);
        let is_held_up = match call.hang.returns {
            true => self.inquiry.is_certain() && self.is_cause(&call),
            false => call.hang.waited >= CALL_TIMEOUT,
        };
        if !is_held_up || self.told.contains(&place) {
            return None;
        }
        self.told.push(place);
        Some((call.peer, Error::PluginHangs(self.explain(call))))
    }

    /// Returns whether a call explains by itself why there is no peer. A call that does not return
    /// does; a call that returns does if a problem was found that a thread of the plugin waits for.
    pub(super) fn is_cause(&self, call: &LongCall) -> bool {
        let holds_up = |found| process::may_block_plugin(found, self.was_there);
        !call.hang.returns || self.inquiry.found().is_some_and(holds_up)
    }

    /// Returns a call with the findings about it. Where RxDM was asked and has no other problem,
    /// the finding is that RxDM does not answer a call that does not return.
    pub(super) fn explain(&self, LongCall { call, hang, .. }: LongCall) -> PluginHang {
        let is_likely = self.inquiry.has_asked() && call.asks_rxdm() && !hang.returns;
        let likely = is_likely.then_some(RXDM_HANGS.code);
        PluginHang { found: self.inquiry.found().or(likely), ..hang }
    }
}

/// Time for which an answer without problems is valid. RxDM may log each question.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// Questions to RxDM, one after the other.
#[derive(Debug, Default)]
pub(super) struct DaemonInquiry {
    /// Outstanding question.
    question: Option<Task<Option<Code>>>,
    answered_at: Option<Instant>,
    /// Result of the last answer.
    found: Option<Code>,
    /// Number of answers in a row that report a problem.
    times: u32,
    has_asked: bool,
}

impl DaemonInquiry {
    /// Takes an answer that has come. Asks, if no question is outstanding. After a problem it asks
    /// again at once, since RxDM may only have been busy, or may have recovered; otherwise after a
    /// while.
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

    /// Returns the known problem of RxDM, if any.
    pub(super) fn found(&self) -> Option<Code> {
        self.found
    }

    /// Returns whether there was a problem at least twice in a row.
    pub(super) fn is_certain(&self) -> bool {
        self.times >= 2
    }

    /// Returns whether RxDM was asked at all.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tcpx_diagnosis::Code;

    use super::*;
    use crate::error::Phase;
    use crate::plugin::comm_label::BlockingCall;

    fn long(call: BlockingCall, waited: Duration) -> LongCall {
        let (peer, nic) = ("far".to_owned(), "eth1".to_owned());
        let (channel, found, phase) = (3, None, Phase::Close);
        let returns = false;
        let hang =
            PluginHang { call: call.name(), phase, peer, channel, nic, waited, returns, found };
        LongCall { peer: PeerKey::default(), call, hang }
    }

    /// Returns an accept that returns, and is not ready.
    fn accept() -> LongCall {
        let LongCall { peer, call, hang } = long(BlockingCall::Accept, 2 * CALL_TIMEOUT);
        LongCall { peer, call, hang: PluginHang { returns: true, ..hang } }
    }

    fn id(calls: &mut HungCalls, call: BlockingCall) -> String {
        let (_, error) = calls.news(long(call, CALL_TIMEOUT)).expect("it was not reported");
        error.id().expect("it has one").to_string()
    }

    #[test]
    fn a_call_is_told_of_once_and_not_before_its_time() {
        let mut calls = HungCalls::default();
        let early = CALL_TIMEOUT - Duration::from_millis(1);
        assert!(calls.news(long(BlockingCall::CloseReceive, early)).is_none());
        assert_eq!(id(&mut calls, BlockingCall::CloseReceive), "TCPX-733");
        assert!(calls.news(long(BlockingCall::CloseReceive, CALL_TIMEOUT)).is_none());
        assert_eq!(id(&mut calls, BlockingCall::CloseSend), "TCPX-733");
    }

    /// Has RxDM answer this number of times.
    fn answered(calls: &mut HungCalls, workers: &Workers, times: usize, found: Option<Code>) {
        for _ in 0..=times {
            calls.inquiry.go_on(Instant::now(), workers, move || found);
            assert!(workers.finish(Duration::from_secs(60)), "it answers");
        }
    }

    #[test]
    fn the_daemon_is_named_where_it_is_what_the_plugin_waits_for() {
        let (workers, mut calls) = (Workers::default(), HungCalls::default());
        answered(&mut calls, &workers, 0, None);
        assert_eq!(id(&mut calls, BlockingCall::CloseReceive), "TCPX-505");
        assert_eq!(id(&mut calls, BlockingCall::Register), "TCPX-733");
        calls.inquiry = DaemonInquiry::default();
        answered(&mut calls, &workers, 1, "TCPX-506".parse().ok());
        assert_eq!(id(&mut calls, BlockingCall::Accept), "TCPX-506");
        assert_eq!(id(&mut calls, BlockingCall::Deregister), "TCPX-506");
    }

    #[test]
    fn a_call_that_returns_is_held_up_when_the_daemon_was_asked_twice() {
        let (workers, mut calls) = (Workers::default(), HungCalls::default());
        // Perhaps only the peer does not come.
        assert!(calls.news(accept()).is_none() && !calls.is_cause(&accept()));
        answered(&mut calls, &workers, 0, None);
        assert_eq!(calls.explain(accept()).found, None);
        calls.inquiry = DaemonInquiry::default();
        answered(&mut calls, &workers, 1, "TCPX-505".parse().ok());
        assert!(calls.news(accept()).is_none() && calls.is_cause(&accept()));
        answered(&mut calls, &workers, 0, None);
        let (_, error) = calls.news(accept()).expect("both answers say the same");
        assert!(error.to_string().starts_with("plugin call accept was not ready for 20.0 s"));
        assert_eq!(error.id().expect("it has one").to_string(), "TCPX-505");
        assert!(calls.news(accept()).is_none(), "told once");
    }

    #[test]
    fn no_call_waits_for_a_daemon_that_never_ran() {
        let (workers, mut calls) = (Workers::default(), HungCalls::default());
        for missing in ["TCPX-501", "TCPX-503"] {
            calls.inquiry = DaemonInquiry::default();
            answered(&mut calls, &workers, 2, missing.parse().ok());
            assert!(calls.news(accept()).is_none() && !calls.is_cause(&accept()), "{missing}");
        }
        calls.was_there = true;
        assert!(calls.is_cause(&accept()));
        assert_eq!(calls.news(accept()).expect("it has gone").1.id(), "TCPX-503".parse().ok());
    }

    fn code(id: &str) -> Option<Code> {
        id.parse().ok()
    }

    /// Asks, and waits until the answer can be taken.
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
        // RxDM was only busy.
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
