//! Reasons why a check stopped before its end, and the words for them.

use tcpx_sys::NcclResult;

use crate::link::values::{Made, UNTOUCHED};
use crate::outcome::Outcome;

/// What a check returns. One that comes to its end has passed.
pub(crate) type Verdict<T = ()> = Result<T, Halt>;

/// A check stopped here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// With this answer.
    Answer(Outcome),
    /// The agent ended while it made this call.
    Died {
        /// C name of the call.
        call: &'static str,
        /// Signal or exit status, and the last line it wrote.
        how: String,
    },
    /// This call did not return in time.
    Hung {
        /// C name of the call.
        call: &'static str,
    },
}

impl From<Halt> for Outcome {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Answer(outcome) => outcome,
            Halt::Died { call, how } => {
                Self::Fail { expected: format!("`{call}` returns"), got: how }
            }
            Halt::Hung { call } => Self::Fail {
                expected: format!("`{call}` returns before the deadline of the check"),
                got: "it did not".to_owned(),
            },
        }
    }
}

/// The rule is broken.
pub(crate) fn fail(expected: impl Into<String>, got: impl Into<String>) -> Halt {
    Halt::Answer(Outcome::Fail { expected: expected.into(), got: got.into() })
}

/// An allowed difference.
pub(crate) fn differs(text: impl Into<String>) -> Halt {
    Halt::Answer(Outcome::Differs { text: text.into() })
}

/// The check does not apply.
pub(crate) fn skip(reason: impl Into<String>) -> Halt {
    Halt::Answer(Outcome::Skip { reason: reason.into() })
}

/// The check applies, and cannot be run here.
pub(crate) fn not_run(reason: impl Into<String>) -> Halt {
    Halt::Answer(Outcome::NotRun { reason: reason.into() })
}

/// Fails with these words unless `holds`.
pub(crate) fn require(holds: bool, expected: &str, got: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(fail(expected, got())) }
}

/// Fails unless `what` returned `want`.
pub(crate) fn require_rc(what: &str, got: i32, want: i32) -> Verdict {
    if got == want {
        return Ok(());
    }
    Err(fail(format!("{what} returns {}", NcclResult(want)), NcclResult(got).to_string()))
}

/// The pointer that `call` made; fails unless it returned 0 and wrote `what`.
pub(crate) fn require_made(call: &str, made: Made, what: &str) -> Verdict<u64> {
    require_rc(call, made.rc, 0)?;
    let written = made.pointer != 0 && made.pointer != UNTOUCHED;
    require(written, what, || format!("{:#x}", made.pointer))?;
    Ok(made.pointer)
}

/// For what the original accepts and a plugin should refuse: 3 passes, 0 is the original's way,
/// anything else fails.
pub(crate) fn strict_refusal(what: &str, got: i32) -> Verdict {
    match got {
        3 => Ok(()),
        0 => Err(differs(format!("{what} is accepted, as in 3.1.9"))),
        _ => {
            Err(fail(format!("{what} returns 3 (or 0, as in 3.1.9)"), NcclResult(got).to_string()))
        }
    }
}

/// For what the original accepts and a stricter plugin refuses with 3: 0 passes, 3 is stricter.
pub(crate) fn loose_acceptance(what: &str, got: i32) -> Verdict<bool> {
    match got {
        0 => Ok(true),
        3 => Ok(false),
        _ => Err(fail(
            format!("{what} returns 0 (or 3, which is stricter)"),
            NcclResult(got).to_string(),
        )),
    }
}

/// For calls that crash the original: dying is its way, an error is the strict one.
pub(crate) fn may_die(what: &str, result: Verdict<i32>) -> Verdict {
    match result {
        Ok(0) => Err(differs(format!("{what} is accepted"))),
        Ok(_) => Ok(()),
        Err(Halt::Died { how, .. }) => {
            Err(differs(format!("{what} ends the process, as in 3.1.9: {how}")))
        }
        Err(other) => Err(other),
    }
}
