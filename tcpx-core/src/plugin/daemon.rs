//! RxDM, the daemon that the hardware plugin asks: whether it answers, once something is wrong.

use std::time::Duration;

use tcpx_diagnosis::table::daemon;
use tcpx_diagnosis::variables::process_env;
use tcpx_diagnosis::{Code, Diagnosis, Finding, Host, check_rxdm};

/// How long an answer of one of its sockets may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// The first thing that is wrong with RxDM on this host. May take as long as a few answers: ask on
/// a worker.
pub(crate) fn what_is_wrong() -> Option<Finding> {
    let env = process_env();
    let mut host = Host::this(&env);
    host.deadline = ANSWER_TIMEOUT;
    check_rxdm(&host, None)
}

/// Whether a thread of the plugin may wait for such an RxDM. One that takes no connection makes
/// accept fail instead, unless it `was_there` before: then it went while the thread waited.
pub(crate) fn holds_up(found: Code, was_there: bool) -> bool {
    let is_one_of = |all: &[&Diagnosis]| all.iter().any(|it| it.code == found);
    is_one_of(&[&daemon::RXDM_HANGS, &daemon::RXDM_CLOSES, &daemon::RXDM_REFUSES])
        || was_there && is_one_of(&[&daemon::RXDM_SOCKET_MISSING, &daemon::RXDM_DIRECTORY_MISSING])
}
