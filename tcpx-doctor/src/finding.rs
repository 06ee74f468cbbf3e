//! One thing that was seen on this machine, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::diagnosis::Diagnosis;
use crate::severity::Severity;

/// One thing that was seen on this machine, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The diagnosis it is a case of.
    pub id: Code,
    /// How bad it is here; normally the diagnosis's own severity.
    pub severity: Severity,
    /// What was seen, with the names and numbers of this machine.
    pub seen: String,
    /// Why that is a problem.
    pub why: String,
    /// What to do: each line is a shell command, or advice that starts with `#`.
    pub cure: Vec<String>,
}

impl Finding {
    /// A case of `diagnosis`, with its severity, cause and cure.
    pub(crate) fn new(diagnosis: &Diagnosis, seen: impl Into<String>) -> Self {
        Self {
            id: diagnosis.code,
            severity: diagnosis.severity,
            seen: seen.into(),
            why: diagnosis.cause.to_owned(),
            cure: diagnosis.cure.iter().map(|&line| line.to_owned()).collect(),
        }
    }

    /// Puts `value` where the diagnosis's text says `name` (`<NIC>` and the like).
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.why = self.why.replace(name, value);
        for line in &mut self.cure {
            *line = line.replace(name, value);
        }
        self
    }

    pub(crate) fn at(mut self, severity: Severity) -> Self {
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
