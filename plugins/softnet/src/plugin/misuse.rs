//! Calls that break the contract in a way that the original would not survive.

use std::fmt;

use crate::failure::Failure;
use crate::hooks::hooks;
use crate::log;

/// Such a call is 3, with a WARN line.
pub(super) fn misuse(rule: fmt::Arguments<'_>) -> Failure {
    if let Some(hooks) = hooks().get() {
        hooks.misused(rule);
    }
    log::warn!("{rule}");
    Failure::Internal
}
