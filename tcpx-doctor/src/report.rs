//! The findings of one examination.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::severity::Severity;

/// The findings of one examination, worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// Sorts `findings`, worst first and by code within a severity.
    #[must_use]
    pub fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.id.cmp(&b.id)));
        Self { findings }
    }

    /// Worst first.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The worst severity, `None` when nothing was found.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.first().map(|finding| finding.severity)
    }

    /// The exit status of a command that shows this report: 0 clean or info, 1 warning, 2 error, 3 fatal-for-plugin.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.worst().map_or(0, Severity::exit_status)
    }

    /// Only what would make the hardware plugin exit, crash, hang or refuse to start.
    #[must_use]
    pub fn fatal(self) -> Self {
        let findings =
            self.findings.into_iter().filter(|f| f.severity == Severity::FatalForPlugin).collect();
        Self { findings }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return f.write_str("nothing wrong was found");
        }
        for (row, finding) in self.findings.iter().enumerate() {
            if row > 0 {
                f.write_str("\n\n")?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}
