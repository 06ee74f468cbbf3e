//! What is known of calls of the plugin that take long, and of the daemon that they wait for.

use std::time::Duration;

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
        let LongCall { peer, hang } = call;
        let place = (peer, hang.channel, hang.call);
        if hang.waited < CALL_TIMEOUT || self.told.contains(&place) {
            return None;
        }
        self.told.push(place);
        Some((peer, Error::PluginHangs(self.explain(hang))))
    }

    /// A call with what was found out.
    pub(super) fn explain(&self, hang: PluginHang) -> PluginHang {
        PluginHang { found: self.found, ..hang }
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
