#![allow(unsafe_code)]
//! No agent outlives its check, however the plugin behaves. Alone in its process, so that every
//! child is this test's.

use std::io;

use tcpx_conformance::Outcome;
use tcpx_testkit::in_own_process;

use crate::broken::run_broken;

/// Whether this process has any child, running or not yet reaped.
fn has_children() -> bool {
    // SAFETY: a NULL status is allowed; WNOHANG makes the call return at once.
    let waited = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    waited >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
}

#[test]
fn nothing_is_left_of_agents_that_pass_abort_exit_or_hang() {
    in_own_process!();
    let modes = [
        ("", "Pass"),
        ("abort", "SIGABRT"),
        ("exit", "exited with status 1"),
        ("hang", "`irecv` returns before the deadline"),
    ];
    for (mode, words) in modes {
        let report = run_broken(mode, &["sizes.bytes_1"]);
        assert!(!has_children(), "after {mode:?}");
        let outcome = format!("{:?}", report.checks[0].outcome);
        assert!(outcome.contains(words), "{mode:?}: {outcome}");
        assert_eq!(report.checks[0].outcome == Outcome::Pass, mode.is_empty());
    }
}
