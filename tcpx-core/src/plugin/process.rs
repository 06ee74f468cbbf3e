#![allow(unsafe_code)]
//! What a plugin does to its process: what becomes of SIGPIPE, how much of what it says becomes log
//! lines, and the daemon that the hardware plugin asks.

use std::mem::MaybeUninit;
use std::ptr::{from_ref, null};
use std::time::Duration;

use tcpx_diagnosis::table::daemon;
use tcpx_diagnosis::variables::process_env;
use tcpx_diagnosis::{Code, Diagnosis, Finding, Host, check_rxdm};
use tcpx_sys::LogLevel;
use tracing::level_filters::LevelFilter;

/// Has SIGPIPE ignored if nobody has said what it shall do. Its default is the end of the process,
/// and it comes when a peer ends while bytes are written to it. What a program has chosen, a
/// handler or to ignore it, stays.
pub(crate) fn ignore_if_default() {
    let is_default = |action: libc::sigaction| action.sa_sigaction == libc::SIG_DFL;
    if !exchange(None).is_some_and(is_default) {
        return;
    }
    // SAFETY: plain numbers, an empty set of signals, and no function, for which zero bytes are
    // values.
    let mut ignore: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ignore.sa_sigaction = libc::SIG_IGN;
    match exchange(Some(&ignore)) {
        Some(before) if is_default(before) => tracing::info!(
            "SIGPIPE is ignored from now on, because the hardware plugin would let it end the \
             process; TCPX_KEEP_SIGPIPE=1 keeps the default"
        ),
        // Another thread has set it in between.
        Some(before) => drop(exchange(Some(&before))),
        None => {}
    }
}

/// Sets what SIGPIPE does, if there is something to set, and returns what it did before.
fn exchange(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the signal's action is NULL, or one that ignores it, or one that was in force; the
    // output is a live variable.
    let status = unsafe {
        libc::sigaction(libc::SIGPIPE, action.map_or(null(), from_ref), before.as_mut_ptr())
    };
    // SAFETY: the call has succeeded and written it.
    (status == 0).then(|| unsafe { before.assume_init() })
}

/// Drops what plugins say above `level`, before it is formatted, in the whole process. The level is
/// DEBUG unless it is set.
///
/// A plugin filters nothing itself. Its warnings arrive as WARN, its information as DEBUG and its
/// traces as TRACE, all with the target `tcpx::plugin`. So INFO lets through as much as WARN, and
/// ERROR as little as OFF.
pub fn set_plugin_log_level(level: LevelFilter) {
    tcpx_sys::set_max_log_level(most_of(level));
}

/// The highest of the plugin's levels that arrives at `level` or below.
fn most_of(level: LevelFilter) -> LogLevel {
    match level {
        LevelFilter::OFF | LevelFilter::ERROR => LogLevel::NONE,
        LevelFilter::WARN | LevelFilter::INFO => LogLevel::WARN,
        LevelFilter::DEBUG => LogLevel::INFO,
        _ => LogLevel::TRACE,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_at_which_lines_arrive() {
        for (level, most) in [
            (LevelFilter::OFF, LogLevel::NONE),
            (LevelFilter::ERROR, LogLevel::NONE),
            (LevelFilter::WARN, LogLevel::WARN),
            (LevelFilter::INFO, LogLevel::WARN),
            (LevelFilter::DEBUG, LogLevel::INFO),
            (LevelFilter::TRACE, LogLevel::TRACE),
        ] {
            assert_eq!(most_of(level), most, "{level}");
        }
    }
}
