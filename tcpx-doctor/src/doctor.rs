//! The whole examination, for `tcpx doctor`.

use std::net::SocketAddr;
use std::path::Path;

use crate::diagnosis::transfer::HOST_PATH_TAKEN;
use crate::finding::Finding;
use crate::host::Host;
use crate::nic_check::{check_features, check_hazards, check_state, data_nics};
use crate::peer::check_peer;
use crate::plugin_file::{self, PluginKind};
use crate::preflight::{check_dialect, check_environment, nics_of};
use crate::report::Report;
use crate::severity::Severity;
use crate::topology::gpus;
use crate::{cuda, kernel_log, limits, rxdm};

/// Examines a machine: the plugin's file, CUDA, GPUs and NICs, kernel and drivers, RxDM, limits, environment, and the
/// way to `peer` if one is given. `plugin` is `None` for the software plugin that is linked in.
///
/// With a software plugin, what only the hardware plugin needs is still reported, as information. Changes nothing;
/// each question takes at most `host.deadline`.
#[must_use]
pub fn examine(plugin: Option<&Path>, peer: Option<SocketAddr>, host: &Host<'_>) -> Report {
    let tree = host.tree();
    let (kind, mut findings) = match plugin {
        Some(path) => plugin_file::check(&tree, host.env, path),
        None => (
            PluginKind::Software,
            vec![Finding::new(&HOST_PATH_TAKEN, "the software plugin serves")],
        ),
    };
    let nics = nics_of(host, &mut findings);
    findings.extend(limits::check(&tree, host.kernel));
    let peer_findings = peer.map(|peer| check_peer(peer, &nics, host.deadline)).unwrap_or_default();

    let gpus = gpus(host.root);
    let data = data_nics(host.env, &nics);
    let (dialects, dialect_finding) = check_dialect(host);
    let mut hardware = cuda::check(&tree, host.env, host.kernel, &gpus);
    hardware.extend(dialect_finding);
    hardware.extend(check_hazards(&tree, &data));
    hardware.extend(check_state(&data, &gpus));
    hardware.extend(check_features(host, &data, dialects));
    let names: Vec<&str> = data.iter().map(|nic| nic.name.as_str()).collect();
    hardware.extend(kernel_log::check(host.kernel.log(), &names));
    hardware.extend(rxdm::check(&tree, host.env, &gpus, host.deadline));
    hardware.extend(check_environment(host, &nics));

    let (own_host, reach): (Vec<Finding>, Vec<Finding>) =
        peer_findings.into_iter().partition(is_about_own_host);
    hardware.extend(own_host);
    findings.extend(reach);
    if kind == PluginKind::Software {
        hardware = hardware.into_iter().map(|finding| finding.at(Severity::Info)).collect();
    }
    findings.extend(hardware);
    Report::new(findings)
}

/// The data NICs that the plugin would use, by name.
#[must_use]
pub fn data_nic_names(host: &Host<'_>) -> Vec<String> {
    let nics = nics_of(host, &mut Vec::new());
    data_nics(host.env, &nics).iter().map(|nic| nic.name.clone()).collect()
}

/// Both ends on one host trouble only device memory.
fn is_about_own_host(finding: &Finding) -> bool {
    use crate::diagnosis::{topology::PEER_IS_THIS_HOST, transfer::LOOPBACK_ADDRESS};
    [PEER_IS_THIS_HOST.code, LOOPBACK_ADDRESS.code].contains(&finding.id)
}
