//! Examination of a machine, for `tcpx doctor`.

use std::net::SocketAddr;
use std::path::Path;

use tcpx_diagnosis::table::{topology::PEER_IS_THIS_HOST, transfer};
use tcpx_diagnosis::variables;
use tcpx_diagnosis::{
    Finding, Hardware, Host, PluginKind, Report, Severity, check_plugin_file, data_nics, nics_of,
};

use crate::checks::nics::{check_features, check_state};
use crate::checks::{check_peer, driver_log, encryption, limits};
use crate::environment::library_remarks;
use crate::kernel::Kernel;
use crate::nixl;

/// Examines a machine: the plugin's file, CUDA, GPUs and NICs, kernel and drivers, RxDM, limits,
/// environment, NIXL's backend, and the route to `peer` if one is given. `plugin` is `None` for the
/// software plugin that is linked in.
///
/// With a software plugin, findings that matter only to the hardware plugin are information.
/// Changes nothing; each query takes at most `host.deadline`.
#[must_use]
pub fn examine(
    plugin: Option<&Path>,
    peer: Option<SocketAddr>,
    host: &Host<'_>,
    kernel: &dyn Kernel,
) -> Report {
    let (kind, mut findings) = match plugin {
        Some(path) => check_plugin_file(host, path),
        None => (
            PluginKind::Software,
            vec![Finding::new(&transfer::HOST_PATH_TAKEN, "the software plugin serves")],
        ),
    };
    findings.extend(limits::check(&host.tree(), kernel));
    findings.extend(encryption::check(host, kernel));
    findings.extend(nixl::check(host));

    let Hardware { gpus, nics, dialects, findings: mut hardware, .. } =
        Hardware::examine(host, None);
    let data = data_nics(host.env, &nics);
    hardware.extend(check_state(&data, &gpus));
    hardware.extend(check_features(kernel, &data, dialects));
    let names: Vec<&str> = data.iter().map(|nic| nic.name.as_str()).collect();
    hardware.extend(driver_log::check(kernel.log(), &names));
    findings.extend(library_remarks(host.env).into_iter().map(|remark| remark.finding));

    let peer_findings = peer.map(|peer| check_peer(peer, &nics, host.deadline)).unwrap_or_default();
    let (own_host, reach): (Vec<Finding>, Vec<Finding>) =
        peer_findings.into_iter().partition(is_about_own_host);
    hardware.extend(own_host);
    findings.extend(reach);
    findings.extend(hardware.into_iter().map(|finding| with_severity_for(kind, finding)));
    Report::new(findings)
}

/// Returns the findings of [`examine`] about the environment alone, with the same severities.
#[must_use]
pub fn examine_environment(plugin: Option<&Path>, host: &Host<'_>) -> Report {
    let kind = plugin.map_or(PluginKind::Software, |path| check_plugin_file(host, path).0);
    let (nics, _) = nics_of(host);
    let names: Vec<&str> =
        nics.iter().filter(|nic| !nic.ipv4.is_empty()).map(|nic| nic.name.as_str()).collect();
    let plugins = variables::lint(host.env, &names, host.cpu_count());
    let plugins = plugins.into_iter().map(|finding| with_severity_for(kind, finding));
    Report::new(
        plugins.chain(library_remarks(host.env).into_iter().map(|remark| remark.finding)).collect(),
    )
}

/// Lowers a finding that matters only to the hardware plugin to information for a software plugin.
fn with_severity_for(kind: PluginKind, finding: Finding) -> Finding {
    match kind {
        PluginKind::Software => finding.at(Severity::Info),
        _ => finding,
    }
}

/// Returns the names of the data NICs that the plugin would use.
#[must_use]
pub fn data_nic_names(host: &Host<'_>) -> Vec<String> {
    let (nics, _) = nics_of(host);
    data_nics(host.env, &nics).iter().map(|nic| nic.name.clone()).collect()
}

/// Returns whether the finding is that both ends are on one host, which matters only to device
/// memory.
fn is_about_own_host(finding: &Finding) -> bool {
    [PEER_IS_THIS_HOST.code, transfer::LOOPBACK_ADDRESS.code].contains(&finding.id)
}
