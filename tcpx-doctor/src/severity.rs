//! How bad a finding is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad a finding is, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing; nothing to do.
    Info,
    /// Works, but slower or more fragile than it should.
    Warning,
    /// Transfers fail or data is lost.
    Error,
    /// The hardware plugin would exit, crash, hang or refuse to start: it must not be loaded.
    FatalForPlugin,
}

impl Severity {
    /// The exit status of a command whose worst finding this is: 0, 1, 2, 3, mildest first.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::FatalForPlugin => "fatal-for-plugin",
        })
    }
}
