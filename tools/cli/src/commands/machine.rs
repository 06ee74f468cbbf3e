//! Facts about this machine for `tcpx doctor`, `tcpx env` and `tcpx devices`.

use std::path::Path;

use tcpx_diagnosis::pci::{self, Gpu, Nic};
use tcpx_diagnosis::{Facts, Finding, Host, LiveFacts, Severity, variables};
use tcpx_doctor::environment;

use crate::failure::Failure;

/// Returns the GPUs, sorted by PCI address.
pub(crate) fn gpus() -> Vec<Gpu> {
    pci::gpus(Path::new("/"))
}

/// Returns the NICs with their addresses, sorted by name.
pub(crate) fn nics() -> Result<Vec<Nic>, Failure> {
    let addresses = LiveFacts
        .addresses()
        .map_err(Failure::io("asking the kernel for the interfaces' addresses"))?;
    Ok(pci::nics(Path::new("/"), &addresses))
}

/// Returns every variable of the plugin and of this library, as it is set here.
pub(crate) fn environment() -> Result<Vec<environment::EnvLine>, Failure> {
    let nics = nics()?;
    let names: Vec<&str> =
        nics.iter().filter(|nic| !nic.ipv4.is_empty()).map(|nic| nic.name.as_str()).collect();
    let env = variables::process_env();
    let cpus = Host::this(&env).cpu_count();
    Ok(environment::inspect(&env, &names, cpus))
}

/// Least severity of the findings that a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MinSeverity {
    /// All findings, including those that matter only to absent hardware
    Info,
    /// Findings that make transfers slower or less reliable, and worse
    Warning,
    /// Findings that make transfers fail, and worse
    Error,
    /// Findings that make the hardware plugin exit, crash, hang or refuse to start
    Fatal,
}

impl MinSeverity {
    fn severity(self) -> Severity {
        match self {
            Self::Info => Severity::Info,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
            Self::Fatal => Severity::FatalForPlugin,
        }
    }

    pub(crate) fn shows(self, finding: &Finding) -> bool {
        finding.severity >= self.severity()
    }
}

/// Returns the text of `findings`: those of at least `least`, numbered, each with cause and cure; a
/// line with the ids of the others; and a line with their count.
pub(crate) fn render_findings(findings: &[Finding], least: MinSeverity) -> String {
    let mut text = String::new();
    let (shown, folded): (Vec<_>, Vec<_>) = findings.iter().partition(|it| least.shows(it));
    for (row, finding) in shown.iter().enumerate() {
        let number = format!("{:>2}. ", row + 1);
        let indented = finding.to_string().replace('\n', "\n    ");
        text.push_str(&format!("{number}{indented}\n\n"));
    }
    if !folded.is_empty() {
        let mut ids: Vec<String> = folded.iter().map(|it| it.id.to_string()).collect();
        ids.dedup();
        let count = folded.len();
        let (count, ids) = (format!("{count} milder finding{}", plural(count)), ids.join(" "));
        text.push_str(&format!("{count} not shown, see --min-severity info: {ids}\n\n"));
    }
    text.push_str(&match findings {
        [] => "nothing wrong was found".to_owned(),
        [worst, ..] => {
            let count = findings.len();
            format!("{count} finding{}, the worst is {}", plural(count), worst.severity)
        }
    });
    text
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use tcpx_diagnosis::Report;

    use super::*;

    #[test]
    fn findings_are_numbered_and_counted() {
        let report = Report::new(environment::lint(&variables::Env::new(), &[], 0));
        let text = render_findings(report.findings(), MinSeverity::Info);
        assert!(text.starts_with(" 1. TCPX-101 fatal-for-plugin: "), "{text}");
        assert!(
            text.contains("\n      why:  ") && text.contains("\n      cure: export "),
            "{text}"
        );
        assert!(text.ends_with("the worst is fatal-for-plugin"), "{text}");
        assert_eq!(render_findings(&[], MinSeverity::Warning), "nothing wrong was found");
    }

    #[test]
    fn milder_findings_have_one_line() {
        let findings = environment::lint(&variables::Env::new(), &[], 0);
        let text = render_findings(Report::new(findings).findings(), MinSeverity::Warning);
        let line = "1 milder finding not shown, see --min-severity info: TCPX-127";
        assert!(text.lines().any(|shown| shown == line), "{text}");
        assert!(!text.contains("TCPX-127 info"), "{text}");
        assert!(text.ends_with("2 findings, the worst is fatal-for-plugin"), "{text}");
    }
}
