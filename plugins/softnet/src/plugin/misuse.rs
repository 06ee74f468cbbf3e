//! Calls that break the contract in a way that the original would not survive.

use std::fmt;

use super::runtime::runtime;
use crate::failure::Failure;
use crate::faults::crash;
use crate::log;
use crate::quirk::Quirk;

/// Such a call is 3, with a WARN line, or ends the process where that is asked for.
pub(super) fn misuse(rule: fmt::Arguments<'_>) -> Failure {
    if runtime().is_ok_and(|runtime| runtime.settings.script.has(Quirk::Crash)) {
        crash(rule);
    }
    log::warn!("{rule}");
    Failure::Internal
}
