//! Findings of a whole examination for each kind of plugin.

use std::path::Path;

use tcpx_diagnosis::Severity;
use tcpx_doctor::examine;

use crate::fixture::host_tree::PLUGIN;
use crate::fixture::{one, plugin_library};
use crate::machine::Machine;

#[test]
fn a_healthy_host_has_no_findings() {
    assert_eq!(Machine::healthy().examine(), []);
}

#[test]
fn the_findings_of_the_preflight_are_included() {
    let tree = Machine::without_rxdm();
    tree.remove("/proc/driver/nvidia");
    tree.remove(PLUGIN);
    let report = examine(Some(Path::new(PLUGIN)), None, &tree.host(), &tree.kernel);
    let fatal = report.fatal();
    assert_eq!(fatal.findings(), tree.preflight());
    assert!(fatal.findings().len() > 2, "{fatal}");
}

#[test]
fn the_software_plugin_makes_all_else_information() {
    let mut tree = Machine::without_rxdm();
    tree.install(PLUGIN, plugin_library::software());
    tree.facts.cuda = Err("no such file".into());
    tree.env.clear();
    let findings = tree.examine();
    let finding = one(&findings, "TCPX-209");
    assert_eq!(
        finding.cure,
        ["# nothing to do; name the GPUDirect-TCPX plugin's path for the hardware one"]
    );
    assert_eq!(one(&findings, "TCPX-221").severity, Severity::Info);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Info), "{findings:#?}");
}

#[test]
fn without_a_plugin_the_linked_in_one_serves() {
    let tree = Machine::without_rxdm();
    let report = examine(None, None, &tree.host(), &tree.kernel);
    assert_eq!(
        one(report.findings(), "TCPX-911").cure,
        ["tcpx doctor", "# name the hardware plugin's path to insist on it"]
    );
    assert_eq!(report.exit_status(), 0);
}
