//! Outcome of one check.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The plugin keeps the rule.
    Pass,
    /// The plugin breaks the rule.
    Fail {
        /// What the rule requires.
        expected: String,
        /// What the plugin did.
        got: String,
    },
    /// The plugin differs from version 3.1.9 in a way that is allowed, or shares a weakness of it.
    ///
    /// It is stricter where the original corrupts data or crashes, or as loose as the original
    /// where a plugin should be stricter.
    Differs {
        /// What the plugin does.
        text: String,
    },
    /// The check did not apply.
    Skip {
        /// Reason, in one sentence.
        reason: String,
    },
    /// The check applies, and could not be run here: there is no GPU, or the run's time was over.
    NotRun {
        /// Reason, in one sentence.
        reason: String,
    },
}

impl Outcome {
    /// Returns whether the plugin broke the rule.
    #[must_use]
    pub const fn failed(&self) -> bool {
        matches!(self, Self::Fail { .. })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Fail { expected, got } => write!(f, "FAIL: expected {expected}; got {got}"),
            Self::Differs { text } => write!(f, "differs: {text}"),
            Self::Skip { reason } => write!(f, "skip: {reason}"),
            Self::NotRun { reason } => write!(f, "not run: {reason}"),
        }
    }
}
