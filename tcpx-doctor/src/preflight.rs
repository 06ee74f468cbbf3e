//! What must hold before the hardware plugin may be loaded.

use std::path::Path;

use crate::diagnosis::kernel as kernel_table;
use crate::environment::lint;
use crate::finding::Finding;
use crate::host::Host;
use crate::kernel::Dialects;
use crate::nic_check::{check_hazards, data_nics};
use crate::plugin_file::{self, PluginKind};
use crate::report::Report;
use crate::topology::{Nic, gpus, nics};
use crate::{cuda, rxdm};

/// Checks everything whose failure would make the plugin at `plugin` exit, crash, hang or refuse to start: its file, the
/// CUDA driver, GPUs, data NICs, the kernel's dialect, RxDM, and the environment in `host.env`, which must be the one that
/// the plugin will see, with the settings that the caller is about to make.
///
/// `gpu` is the PCI address of the only GPU that will be used, `0000:04:00.0`; without it RxDM must serve every GPU of the
/// machine. The software plugin needs none of these but a loadable file. Takes at most `host.deadline` for each of RxDM's sockets
/// and changes nothing.
///
/// # Errors
/// The findings of severity [`FatalForPlugin`](crate::Severity::FatalForPlugin), at least one.
pub fn preflight(plugin: &Path, gpu: Option<&str>, host: &Host<'_>) -> Result<(), Report> {
    let tree = host.tree();
    let (kind, mut findings) = plugin_file::check(&tree, host.env, plugin);
    if kind != PluginKind::Software {
        let gpus = gpus(host.root);
        let nics = nics_of(host, &mut findings);
        findings.extend(cuda::check(&tree, host.env, host.kernel, &gpus));
        findings.extend(check_dialect(host).1);
        findings.extend(check_hazards(&tree, &data_nics(host.env, &nics)));
        findings.extend(check_environment(host, &nics));
        let is_used = |bus_id: &str| gpu.is_none_or(|gpu| gpu.eq_ignore_ascii_case(bus_id));
        let used: Vec<_> = gpus.into_iter().filter(|gpu| is_used(&gpu.pci_bus_id)).collect();
        findings.extend(rxdm::check(&tree, host.env, &used, host.deadline));
    }
    let fatal = Report::new(findings).fatal();
    if fatal.findings().is_empty() {
        return Ok(());
    }
    for finding in fatal.findings() {
        tracing::error!(code = %finding.id, seen = %finding.seen, "the plugin cannot be loaded safely");
    }
    Err(fatal)
}

/// The machine's NICs with their addresses.
pub(crate) fn nics_of(host: &Host<'_>, findings: &mut Vec<Finding>) -> Vec<Nic> {
    let addresses = host.kernel.addresses().unwrap_or_else(|error| {
        let seen = format!("addresses of the interfaces: {error}");
        findings.push(Finding::new(&crate::diagnosis::topology::NIC_NOT_EXAMINED, seen));
        Vec::new()
    });
    nics(host.root, &addresses)
}

pub(crate) fn check_dialect(host: &Host<'_>) -> (Dialects, Option<Finding>) {
    match host.kernel.dialects() {
        Ok(dialects @ Dialects { google: true, .. }) => (dialects, None),
        Ok(dialects) => {
            let (diagnosis, seen) = if dialects.upstream {
                (&kernel_table::DIALECT_UPSTREAM_ONLY, "option 80 is known, option 97 is not")
            } else {
                (&kernel_table::DIALECT_ABSENT, "options 80 and 97 are unknown")
            };
            (dialects, Some(Finding::new(diagnosis, seen)))
        }
        Err(error) => {
            let seen = format!("a TCP socket: {error}");
            (Dialects::default(), Some(Finding::new(&kernel_table::DIALECT_UNKNOWN, seen)))
        }
    }
}

pub(crate) fn check_environment(host: &Host<'_>, nics: &[Nic]) -> Vec<Finding> {
    let names: Vec<&str> =
        nics.iter().filter(|nic| !nic.ipv4.is_empty()).map(|nic| nic.name.as_str()).collect();
    lint(host.env, &names, possible_cpus(host))
}

/// How many CPUs the machine has, from `/sys/devices/system/cpu/present` (`0-207`); 0 when unknown.
fn possible_cpus(host: &Host<'_>) -> u32 {
    let list = host.tree().word("/sys/devices/system/cpu/present").unwrap_or_default();
    let highest = list.split([',', '-']).filter_map(|number| number.parse::<u32>().ok()).max();
    highest.map_or(0, |highest| highest.saturating_add(1))
}
