//! Row of the table of known problems, and the macro in which the rows are written.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// Severity of a finding, mildest first.
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
    /// Returns the exit status of a command whose worst finding has this severity: 0, 1, 2, 3,
    /// mildest first.
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

/// Known problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Number of the diagnosis, never reused.
    pub code: Code,
    /// Severity, unless a check that finds the problem determines another.
    pub severity: Severity,
    /// A short name.
    pub title: &'static str,
    /// Symptom that a user sees.
    pub symptom: &'static str,
    /// Lines of logs and programs that identify the problem, beside those that the title and the
    /// symptom quote. In all of them `n` stands for any number, `<WORDS>` and `...` for up to eight
    /// words.
    pub lines: &'static [&'static str],
    /// Cause of the problem.
    pub cause: &'static str,
    /// Cure: each line is a shell command, or advice that starts with `#`. A finding fills in words
    /// such as `<NIC>`.
    pub cure: &'static [&'static str],
    /// Source of this knowledge.
    pub source: &'static str,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} ({})", self.code, self.title, self.severity)?;
        writeln!(f, "symptom: {}", self.symptom)?;
        for (row, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:<8} {line}", if row == 0 { "lines:" } else { "" })?;
        }
        writeln!(f, "cause:   {}", self.cause)?;
        for (row, line) in self.cure.iter().enumerate() {
            writeln!(f, "{:<8} {line}", if row == 0 { "cure:" } else { "" })?;
        }
        write!(f, "source:  {}", self.source)
    }
}

/// Declares one file of the table: a static for each diagnosis, and `ALL`, in the order written.
macro_rules! diagnoses {
    ($(
        $name:ident = $number:literal $severity:ident $title:literal
        symptom $symptom:literal
        $(lines [$($line:literal),+ $(,)?])?
        cause $cause:literal
        cure [$($cure:literal),+ $(,)?]
        source $source:literal
    )+) => {
        $(
            #[doc = concat!("TCPX-", $number, ": ", $title, ".")]
            pub static $name: $crate::diagnosis::Diagnosis = $crate::diagnosis::Diagnosis {
                code: $crate::code::Code::new($number),
                severity: $crate::diagnosis::Severity::$severity,
                title: $title,
                symptom: $symptom,
                lines: &[$($($line),+)?],
                cause: $cause,
                cure: &[$($cure),+],
                source: $source,
            };
        )+
        pub(super) static ALL: &[&$crate::diagnosis::Diagnosis] = &[$(&$name),+];
    };
}
pub(crate) use diagnoses;
