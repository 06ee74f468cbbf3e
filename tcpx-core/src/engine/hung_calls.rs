//! What is known of calls of the plugin that take long, and of the daemon that they wait for.
//!
//! What RxDM answers while something is under way that may wait for it.

use std::time::{Duration, Instant};

use tcpx_diagnosis::Code;
use tcpx_diagnosis::table::daemon::RXDM_HANGS;

use crate::error::{Error, PluginHang};
use crate::plugin::calls::{CALL_TIMEOUT, LongCall};
use crate::plugin::process;
use crate::types::PeerKey;
use crate::workers::{Task, Workers};

/// What is known of calls that take long.
#[derive(Debug, Default)]
pub(super) struct HungCalls {
    /// Of RxDM, because of those that are under way now.
    inquiry: DaemonInquiry,
    /// Whether it was looked at before the plugin was loaded.
    was_there: bool,
    /// Those that the log has told of.
    told: Vec<(PeerKey, u16, &'static str)>,
}

impl HungCalls {
    /// Has RxDM asked whether it answers, and looks whether that is known. `was_there`: before the
    /// plugin was loaded, it was.
    pub(super) fn ask_daemon(&mut self, now: Instant, workers: &Workers, was_there: bool) {
        self.was_there = was_there;
        let ask = || process::what_is_wrong().map(|finding| finding.id);
        self.inquiry.go_on(now, workers, ask);
    }

    /// The error of a call, if it hangs and nobody has been told. One that returns is held up for
    /// certain when RxDM is: by then a peer of this host waits for it in vain, and is to hear why
    /// before its own time is over.
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

    /// Whether a call says by itself why there is no peer: one that does not return, and one that
    /// does if something was found for which a thread of the plugin waits.
    pub(super) fn is_cause(&self, call: &LongCall) -> bool {
        let holds_up = |found| process::holds_up(found, self.was_there);
        !call.hang.returns || self.inquiry.found().is_some_and(holds_up)
    }

    /// A call with what was found out. Where RxDM was asked and nothing is wrong with it otherwise,
    /// it is a call that does not return which it does not answer.
    pub(super) fn explain(&self, LongCall { call, hang, .. }: LongCall) -> PluginHang {
        let is_likely = self.inquiry.has_asked() && call.asks_rxdm() && !hang.returns;
        let likely = is_likely.then_some(RXDM_HANGS.code);
        PluginHang { found: self.inquiry.found().or(likely), ..hang }
    }
}

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

    /// An accept that returns, and is not ready.
    fn accept() -> LongCall {
        let LongCall { peer, call, hang } = long(BlockingCall::Accept, 2 * CALL_TIMEOUT);
        LongCall { peer, call, hang: PluginHang { returns: true, ..hang } }
    }

    fn id(calls: &mut HungCalls, call: BlockingCall) -> String {
        let (_, error) = calls.news(long(call, CALL_TIMEOUT)).expect("nobody was told");
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

    /// RxDM has answered so often.
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
        // It may be the peer that does not come.
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
    fn nobody_waits_for_a_daemon_that_never_was_there() {
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
