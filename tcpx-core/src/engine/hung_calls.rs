//! What is known of calls of the plugin that take long, and of the daemon that they wait for.

use std::time::Duration;

use tcpx_diagnosis::table::daemon::RXDM_HANGS;
use tcpx_diagnosis::variables::process_env;
use tcpx_diagnosis::{Code, Host, check_rxdm};

use crate::error::{Error, PluginHang};
use crate::plugin::calls::{CALL_TIMEOUT, LongCall};
use crate::types::PeerKey;
use crate::workers::Workers;
use crate::workers::ticket::Task;

/// How long each answer of the daemon may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// What is known of calls that take long.
#[derive(Debug, Default)]
pub(super) struct HungCalls {
    /// The question to the daemon, for those that are under way now.
    asked: Option<Task<Option<Code>>>,
    found: Option<Code>,
    /// Those that the log has told of.
    told: Vec<(PeerKey, u16, &'static str)>,
}

impl HungCalls {
    /// Has RxDM asked whether it answers, once, and looks whether that is known.
    pub(super) fn ask_daemon(&mut self, workers: &Workers) {
        let asked = self.asked.get_or_insert_with(|| workers.call(ask));
        if let Some(found) = asked.take() {
            self.found = found;
        }
    }

    /// The error of a call, if it hangs and nobody has been told.
    pub(super) fn news(&mut self, call: LongCall) -> Option<(PeerKey, Error)> {
        let place = (call.peer, call.hang.channel, call.hang.call);
        if call.hang.waited < CALL_TIMEOUT || self.told.contains(&place) {
            return None;
        }
        self.told.push(place);
        Some((call.peer, Error::PluginHangs(self.explain(call))))
    }

    /// A call with what was found out. Where RxDM was asked and nothing is wrong with it otherwise,
    /// it is that call which it does not answer.
    pub(super) fn explain(&self, LongCall { call, hang, .. }: LongCall) -> PluginHang {
        let likely = (self.asked.is_some() && call.asks_rxdm()).then_some(RXDM_HANGS.code);
        PluginHang { found: self.found.or(likely), ..hang }
    }
}

/// What is wrong with RxDM.
fn ask() -> Option<Code> {
    let env = process_env();
    let mut host = Host::this(&env);
    host.deadline = ANSWER_TIMEOUT;
    let findings = check_rxdm(&host, None);
    findings.first().map(|finding| finding.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Phase;
    use crate::plugin::blocking_call::BlockingCall;

    fn long(call: BlockingCall, waited: Duration) -> LongCall {
        let (peer, nic) = ("far".to_owned(), "eth1".to_owned());
        let (channel, found, phase) = (3, None, Phase::Close);
        let hang = PluginHang { call: call.name(), phase, peer, channel, nic, waited, found };
        LongCall { peer: PeerKey::default(), call, hang }
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

    #[test]
    fn the_daemon_is_named_where_it_is_what_the_plugin_waits_for() {
        let workers = Workers::default();
        let mut calls = HungCalls { asked: Some(workers.call(|| None)), ..HungCalls::default() };
        assert_eq!(id(&mut calls, BlockingCall::CloseReceive), "TCPX-505");
        assert_eq!(id(&mut calls, BlockingCall::Register), "TCPX-733");
        calls.found = "TCPX-506".parse().ok();
        assert_eq!(id(&mut calls, BlockingCall::Accept), "TCPX-506");
        assert_eq!(id(&mut calls, BlockingCall::Deregister), "TCPX-506");
    }
}
