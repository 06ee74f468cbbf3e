//! Result of a check: the reasons for which it ends early, and their texts.

use tcpx_sys::NcclResult;

use crate::link::values::{PointerReply, UNTOUCHED};
use crate::outcome::Outcome;

/// Result of a check. A check that returns `Ok` has passed.
pub(crate) type CheckResult<T = ()> = Result<T, EarlyEnd>;

/// Reason why a check ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EarlyEnd {
    /// The check has this outcome.
    Outcome(Outcome),
    /// The agent ended while it made this call.
    Died {
        /// C name of the call.
        call: &'static str,
        /// Signal or exit status, and the last line of its output.
        how: String,
    },
    /// This call did not return in time.
    Hung {
        /// C name of the call.
        call: &'static str,
    },
}

impl From<EarlyEnd> for Outcome {
    fn from(halt: EarlyEnd) -> Self {
        match halt {
            EarlyEnd::Outcome(outcome) => outcome,
            EarlyEnd::Died { call, how } => {
                Self::Fail { expected: format!("`{call}` returns"), got: how }
            }
            EarlyEnd::Hung { call } => Self::Fail {
                expected: format!("`{call}` returns before the deadline of the check"),
                got: "it did not".to_owned(),
            },
        }
    }
}

/// Ends the check: the rule is broken.
pub(crate) fn fail(expected: impl Into<String>, got: impl Into<String>) -> EarlyEnd {
    EarlyEnd::Outcome(Outcome::Fail { expected: expected.into(), got: got.into() })
}

/// Ends the check: the plugin differs from version 3.1.9 in an allowed way.
pub(crate) fn differs(text: impl Into<String>) -> EarlyEnd {
    EarlyEnd::Outcome(Outcome::Differs { text: text.into() })
}

/// Ends the check: it does not apply.
pub(crate) fn skip(reason: impl Into<String>) -> EarlyEnd {
    EarlyEnd::Outcome(Outcome::Skip { reason: reason.into() })
}

/// Ends the check: it applies, and cannot be run here.
pub(crate) fn not_run(reason: impl Into<String>) -> EarlyEnd {
    EarlyEnd::Outcome(Outcome::NotRun { reason: reason.into() })
}

/// Fails with these texts unless `holds`.
pub(crate) fn require(holds: bool, expected: &str, got: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(fail(expected, got())) }
}

/// Fails unless `what` returned `want`.
pub(crate) fn require_rc(what: &str, got: i32, want: i32) -> CheckResult {
    if got == want {
        return Ok(());
    }
    Err(fail(format!("{what} returns {}", NcclResult(want)), NcclResult(got).to_string()))
}

/// Returns the pointer of a reply; fails unless `call` returned 0 and wrote `what`.
pub(crate) fn require_pointer(call: &str, reply: PointerReply, what: &str) -> CheckResult<u64> {
    require_rc(call, reply.rc, 0)?;
    let written = reply.pointer != 0 && reply.pointer != UNTOUCHED;
    require(written, what, || format!("{:#x}", reply.pointer))?;
    Ok(reply.pointer)
}

/// Judges a call that the original accepts and a plugin should refuse: 3 passes, 0 differs, as the
/// original does, and any other code fails.
pub(crate) fn strict_refusal(what: &str, got: i32) -> CheckResult {
    match got {
        3 => Ok(()),
        0 => Err(differs(format!("{what} is accepted, as in 3.1.9"))),
        _ => {
            Err(fail(format!("{what} returns 3 (or 0, as in 3.1.9)"), NcclResult(got).to_string()))
        }
    }
}

/// Judges a call that the original accepts, and a stricter plugin refuses with 3. Returns whether
/// it was accepted; any other code fails.
pub(crate) fn loose_acceptance(what: &str, got: i32) -> CheckResult<bool> {
    match got {
        0 => Ok(true),
        3 => Ok(false),
        _ => Err(fail(
            format!("{what} returns 0 (or 3, which is stricter)"),
            NcclResult(got).to_string(),
        )),
    }
}

/// Judges a call that crashes the original: an error passes; success, or the end of the process,
/// differs.
pub(crate) fn may_die(what: &str, result: CheckResult<i32>) -> CheckResult {
    match result {
        Ok(0) => Err(differs(format!("{what} is accepted"))),
        Ok(_) => Ok(()),
        Err(EarlyEnd::Died { how, .. }) => {
            Err(differs(format!("{what} ends the process, as in 3.1.9: {how}")))
        }
        Err(other) => Err(other),
    }
}
