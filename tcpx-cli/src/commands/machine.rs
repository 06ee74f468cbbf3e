//! The machine that `tcpx doctor`, `tcpx env` and `tcpx devices` look at: this one.

use std::path::Path;

use tcpx_diagnosis::pci::{self, Gpu, Nic};
use tcpx_diagnosis::{Facts, Finding, Host, LiveFacts, Report, variables};
use tcpx_doctor::environment;

use crate::failure::Failure;

/// GPUs sorted by PCI address.
pub(crate) fn gpus() -> Vec<Gpu> {
    pci::gpus(Path::new("/"))
}

/// NICs with their addresses, sorted by name.
pub(crate) fn nics() -> Result<Vec<Nic>, Failure> {
    let addresses = LiveFacts
        .addresses()
        .map_err(Failure::io("asking the kernel for the interfaces' addresses"))?;
    Ok(pci::nics(Path::new("/"), &addresses))
}

/// Every variable of the plugin as it is set here, and what is wrong with them, worst first.
pub(crate) fn environment() -> Result<(Vec<environment::EnvLine>, Report), Failure> {
    let nics = nics()?;
    let names: Vec<&str> =
        nics.iter().filter(|nic| !nic.ipv4.is_empty()).map(|nic| nic.name.as_str()).collect();
    let env = variables::process_env();
    let cpus = Host::this(&env).cpu_count();
    let lines = environment::inspect(&env, &names, cpus);
    Ok((lines, Report::new(environment::lint(&env, &names, cpus))))
}

/// `findings` numbered, each with cause and cure, and a line that counts them.
pub(crate) fn render_findings(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (row, finding) in findings.iter().enumerate() {
        let number = format!("{:>2}. ", row + 1);
        let indented = finding.to_string().replace('\n', "\n    ");
        text.push_str(&format!("{number}{indented}\n\n"));
    }
    text.push_str(&match findings {
        [] => "nothing wrong was found".to_owned(),
        [worst, ..] => format!(
            "{} finding{}, the worst is {}",
            findings.len(),
            if findings.len() == 1 { "" } else { "s" },
            worst.severity
        ),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_numbered_and_counted() {
        let report = Report::new(environment::lint(&variables::Env::new(), &[], 0));
        let text = render_findings(report.findings());
        assert!(text.starts_with(" 1. TCPX-101 fatal-for-plugin: "), "{text}");
        assert!(
            text.contains("\n      why:  ") && text.contains("\n      cure: export "),
            "{text}"
        );
        assert!(text.ends_with("the worst is fatal-for-plugin"), "{text}");
        assert_eq!(render_findings(&[]), "nothing wrong was found");
    }
}
