//! The table of everything that is known to go wrong: symptom, cause and cure.

use std::fmt::Write as _;

use serde::Serialize;

use crate::code::Code;
use crate::severity::Severity;

/// Declares one file of the table: a static per diagnosis and `ALL`, in the order written.
macro_rules! diagnoses {
    ($(
        $name:ident = $number:literal $severity:ident $title:literal
        symptom $symptom:literal
        cause $cause:literal
        cure [$($cure:literal),+ $(,)?]
        source $source:literal
    )+) => {
        $(
            #[doc = concat!("TCPX-", $number, ": ", $title, ".")]
            pub static $name: $crate::diagnosis::Diagnosis = $crate::diagnosis::Diagnosis {
                code: $crate::code::Code::new($number),
                severity: $crate::severity::Severity::$severity,
                title: $title,
                symptom: $symptom,
                cause: $cause,
                cure: &[$($cure),+],
                source: $source,
            };
        )+
        pub(super) static ALL: &[&$crate::diagnosis::Diagnosis] = &[$(&$name),+];
    };
}

pub mod connection;
pub mod daemon;
pub mod environment;
pub mod kernel;
pub mod limits;
pub mod plugin;
pub mod requests;
pub mod topology;
pub mod transfer;

/// One thing that is known to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Its number, never reused.
    pub code: Code,
    /// How bad it is, unless a check that finds it knows better.
    pub severity: Severity,
    /// A short name.
    pub title: &'static str,
    /// What a user sees.
    pub symptom: &'static str,
    /// Why it happens.
    pub cause: &'static str,
    /// What to do: each line is a shell command, or advice that starts with `#`. Words such as `<NIC>` stand for what
    /// a finding fills in.
    pub cure: &'static [&'static str],
    /// Where this is known from.
    pub source: &'static str,
}

static CHAPTERS: &[(&str, &[&Diagnosis])] = &[
    ("Environment", environment::ALL),
    ("Plugin and CUDA", plugin::ALL),
    ("Topology", topology::ALL),
    ("Kernel and NIC", kernel::ALL),
    ("RxDM", daemon::ALL),
    ("Limits and network", limits::ALL),
    ("Connections", connection::ALL),
    ("Requests", requests::ALL),
    ("Transfers", transfer::ALL),
];

/// Every diagnosis, in the order of their codes.
pub fn all() -> impl Iterator<Item = &'static Diagnosis> {
    CHAPTERS.iter().flat_map(|(_, chapter)| chapter.iter().copied())
}

/// The diagnosis with this code.
#[must_use]
pub fn explain(code: Code) -> Option<&'static Diagnosis> {
    all().find(|diagnosis| diagnosis.code == code)
}

/// The diagnoses whose symptom, title or cause contains `text`, whatever the case: for a line of a log.
pub fn search(text: &str) -> impl Iterator<Item = &'static Diagnosis> {
    let wanted = text.to_lowercase();
    all().filter(move |diagnosis| {
        [diagnosis.symptom, diagnosis.title, diagnosis.cause]
            .iter()
            .any(|part| part.to_lowercase().contains(&wanted))
    })
}

impl std::fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} {} ({})", self.code, self.title, self.severity)?;
        writeln!(f, "symptom: {}", self.symptom)?;
        writeln!(f, "cause:   {}", self.cause)?;
        for (row, line) in self.cure.iter().enumerate() {
            writeln!(f, "{:<8} {line}", if row == 0 { "cure:" } else { "" })?;
        }
        write!(f, "source:  {}", self.source)
    }
}

/// The text of `docs/diagnosis.md`.
#[must_use]
pub fn render_markdown() -> String {
    let mut page = String::from(
        "# Diagnosis\n\n\
         What is known to go wrong with GPUDirect-TCPX and with this library, and what to do about it.\n\
         `tcpx doctor` finds the cases it can see on a machine; `tcpx explain TCPX-101` shows one of them.\n\
         This page is rendered from the table in `tcpx-doctor`; change it there.\n\n\
         In a cure each line is a command to type, or advice that starts with `#`. Severities: *info*, *warning*, *error*,\n\
         *fatal-for-plugin* (the hardware plugin would exit, crash, hang or refuse to start).\n",
    );
    for (chapter, diagnoses) in CHAPTERS {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {chapter}\n");
        for diagnosis in *diagnoses {
            let _ = write!(
                page,
                "\n### {} {}\n\n*{}*\n\n- **Symptom:** {}\n- **Cause:** {}\n- **Source:** {}\n\n```sh\n{}\n```\n",
                diagnosis.code,
                diagnosis.title,
                diagnosis.severity,
                escaped(diagnosis.symptom),
                escaped(diagnosis.cause),
                escaped(diagnosis.source),
                diagnosis.cure.join("\n"),
            );
        }
    }
    page
}

/// Keeps Markdown from reading `<NIC>` as a tag.
fn escaped(text: &str) -> String {
    text.replace('<', "\\<")
}
