#![allow(unsafe_code)]
//! Effects of a plugin on its process: the action of SIGPIPE, the level of the plugin's log lines,
//! and the daemon that the hardware plugin asks.

use std::mem::MaybeUninit;
use std::ptr::{from_ref, null};
use std::time::Duration;

use tcpx_diagnosis::table::daemon;
use tcpx_diagnosis::variables::process_env;
use tcpx_diagnosis::{Code, Diagnosis, Finding, Host, check_rxdm};
use tcpx_sys::LogLevel;
use tracing::level_filters::LevelFilter;

/// Ignores SIGPIPE if the program has set no action. The signal comes when a peer ends while bytes
/// are written to it, and the default action ends the process. An action that the program has
/// chosen, a handler or to ignore the signal, stays.
pub(crate) fn ignore_sigpipe_if_default() {
    let is_default = |action: libc::sigaction| action.sa_sigaction == libc::SIG_DFL;
    if !replace_action(None).is_some_and(is_default) {
        return;
    }
    // SAFETY: plain numbers, an empty set of signals, and no function, for which zero bytes are
    // values.
    let mut ignore: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ignore.sa_sigaction = libc::SIG_IGN;
    match replace_action(Some(&ignore)) {
        Some(before) if is_default(before) => tracing::info!(
            "SIGPIPE is ignored from now on, because the hardware plugin would let it end the \
             process; TCPX_KEEP_SIGPIPE=1 keeps the default"
        ),
        // Another thread has set it in between.
        Some(before) => drop(replace_action(Some(&before))),
        None => {}
    }
}

/// Sets the action of SIGPIPE, if one is given, and returns the action before.
fn replace_action(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the signal's action is NULL, or one that ignores it, or one that was in force; the
    // output is a live variable.
    let status = unsafe {
        libc::sigaction(libc::SIGPIPE, action.map_or(null(), from_ref), before.as_mut_ptr())
    };
    // SAFETY: the call has succeeded and has written the action.
    (status == 0).then(|| unsafe { before.assume_init() })
}

/// Drops log lines of plugins above `level`, before they are formatted, in the whole process. The
/// default level is DEBUG.
///
/// A plugin filters nothing itself. Its warnings arrive as WARN, its information as DEBUG and its
/// traces as TRACE, all with the target `tcpx::plugin`. So INFO lets through as much as WARN, and
/// ERROR as little as OFF.
pub fn set_plugin_log_level(level: LevelFilter) {
    tcpx_sys::set_max_log_level(max_level_for(level));
}

/// Returns the highest of the plugin's levels that arrives at `level` or below.
fn max_level_for(level: LevelFilter) -> LogLevel {
    match level {
        LevelFilter::OFF | LevelFilter::ERROR => LogLevel::NONE,
        LevelFilter::WARN | LevelFilter::INFO => LogLevel::WARN,
        LevelFilter::DEBUG => LogLevel::INFO,
        _ => LogLevel::TRACE,
    }
}

/// Time that an answer of one of the daemon's sockets may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the first problem of RxDM on this host. May take as long as a few answers: call it on a
/// worker.
pub(crate) fn diagnose_rxdm() -> Option<Finding> {
    let env = process_env();
    let mut host = Host::this(&env);
    host.deadline = ANSWER_TIMEOUT;
    check_rxdm(&host, None)
}

/// Returns whether an RxDM in this state may make a thread of the plugin wait. An RxDM that takes
/// no connection makes accept fail instead, unless it `was_there` before: then it stopped while the
/// thread waited.
pub(crate) fn may_block_plugin(found: Code, was_there: bool) -> bool {
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
            assert_eq!(max_level_for(level), most, "{level}");
        }
    }
}
