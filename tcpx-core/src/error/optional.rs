//! Optional parts of texts of errors.

use std::fmt::Display;

/// Returns `words` and the value, or nothing without one.
pub(super) fn prefixed(words: &str, value: &Option<impl Display>) -> String {
    value.as_ref().map_or_else(String::new, |value| format!("{words}{value}"))
}
