//! A fixture for every finding: what is seen leads to exactly its code and its cure.

mod answers;
mod devmem_findings;
mod diagnosis_page;
mod environment_findings;
mod host_tree;
mod limit_findings;
mod nic_findings;
mod peer_findings;
mod plugin_findings;
mod plugin_library;
mod preflight_verdict;
mod rxdm_findings;
mod rxdm_server;
mod script;
mod this_machine;
mod topology_tree;

use tcpx_doctor::{Code, Finding};

/// The one finding with this code.
fn one<'a>(findings: &'a [Finding], code: &str) -> &'a Finding {
    let wanted: Code = code.parse().expect("a code");
    let found: Vec<_> = findings.iter().filter(|finding| finding.id == wanted).collect();
    assert_eq!(found.len(), 1, "{code} among {findings:#?}");
    found[0]
}

/// The codes of `findings`, in order.
fn codes(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| finding.id.to_string()).collect()
}
