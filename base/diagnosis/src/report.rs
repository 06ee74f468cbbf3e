//! Findings on a machine, and the report that sorts them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::diagnosis::{Diagnosis, Severity};

/// Problem seen on this machine, with its cure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// Diagnosis that the finding is a case of.
    pub id: Code,
    /// Severity here; normally the diagnosis's own.
    pub severity: Severity,
    /// Observation, with the names and numbers of this machine.
    pub seen: String,
    /// Reason why the observation is a problem.
    pub why: String,
    /// Cure: each line is a shell command, or advice that starts with `#`.
    pub cure: Vec<String>,
}

impl Finding {
    /// Creates a case of `diagnosis`, with its severity, cause and cure.
    #[must_use]
    pub fn new(diagnosis: &Diagnosis, seen: impl Into<String>) -> Self {
        Self {
            id: diagnosis.code,
            severity: diagnosis.severity,
            seen: seen.into(),
            why: diagnosis.cause.to_owned(),
            cure: diagnosis.cure.iter().map(|&line| line.to_owned()).collect(),
        }
    }

    /// Replaces `name` (`<NIC>` and the like) in the diagnosis's text by `value`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.why = self.why.replace(name, value);
        for line in &mut self.cure {
            *line = line.replace(name, value);
        }
        self
    }

    /// Returns the same finding with another severity.
    #[must_use]
    pub fn at(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}: {}", self.id, self.severity, self.seen)?;
        writeln!(f, "  why:  {}", self.why)?;
        for (row, line) in self.cure.iter().enumerate() {
            if row > 0 {
                writeln!(f)?;
            }
            write!(f, "  {} {line}", if row == 0 { "cure:" } else { "     " })?;
        }
        Ok(())
    }
}

/// Findings of one examination, worst first.
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

    /// Returns the findings, worst first.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the worst severity, or `None` when nothing was found.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.first().map(|finding| finding.severity)
    }

    /// Returns the exit status of a command that shows this report: 0 nothing or info, 1 warning, 2
    /// error, 3 fatal-for-plugin.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.worst().map_or(0, Severity::exit_status)
    }

    /// Keeps only findings that would make the hardware plugin exit, crash, hang or refuse to
    /// start.
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
