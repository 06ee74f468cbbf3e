//! Requirements of the hardware plugin, except its own file.

use super::nic_hazards::{check_hazards, data_nics};
use super::rxdm::RuleSockets;
use super::{cuda, rxdm};
use crate::machine::facts::Dialects;
use crate::machine::host::Host;
use crate::pci::{Gpu, Nic, gpus, nics};
use crate::report::Finding;
use crate::table::{kernel, topology};
use crate::variables::lint;

/// State of a machine as the hardware plugin would meet it, with its problems.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hardware {
    /// NVIDIA GPUs, sorted by PCI address.
    pub gpus: Vec<Gpu>,
    /// Network interfaces with their addresses, sorted by name.
    pub nics: Vec<Nic>,
    /// The kernel's dialects of device memory TCP, none when the kernel could not be asked.
    pub dialects: Dialects,
    /// Problems of every severity.
    pub findings: Vec<Finding>,
}

impl Hardware {
    /// Checks the CUDA driver, GPUs, data NICs, the kernel's dialect, RxDM, and the values of the
    /// environment. `gpu`: see [`preflight`](crate::preflight()).
    #[must_use]
    pub fn examine(host: &Host<'_>, gpu: Option<&str>) -> Self {
        let tree = host.tree();
        let gpus = gpus(host.root);
        let (nics, unread) = nics_of(host);
        let (dialects, dialect_finding) = check_dialect(host);
        let mut findings: Vec<Finding> = unread.into_iter().chain(dialect_finding).collect();
        findings.extend(cuda::check(&tree, host.env, host.facts, &gpus));
        findings.extend(check_hazards(&tree, &data_nics(host.env, &nics)));
        findings.extend(lint(host.env, &with_address(&nics), host.cpu_count()));
        let used = used(&gpus, gpu);
        let rules = RuleSockets::Look;
        findings.extend(rxdm::check(&tree, host.env, &used, rules, host.deadline));
        Self { gpus, nics, dialects, findings }
    }
}

/// Checks RxDM again, as [`preflight`](crate::preflight()) does: its sockets, and its answers. Call
/// this when something is wrong: unlike preflight, it also sends requests to the sockets that take
/// steering rules. RxDM refuses these requests, and may log them. Returns the first problem. A
/// socket takes at most `host.deadline`. `gpu` is as for preflight.
#[must_use]
pub fn check_rxdm(host: &Host<'_>, gpu: Option<&str>) -> Option<Finding> {
    let (tree, gpus) = (host.tree(), gpus(host.root));
    rxdm::check(&tree, host.env, &used(&gpus, gpu), RuleSockets::Ask, host.deadline).next()
}

/// Returns the GPUs that will be used: the one at this PCI address, or all.
fn used<'a>(gpus: &'a [Gpu], gpu: Option<&str>) -> Vec<&'a Gpu> {
    let is_used = |of: &&Gpu| gpu.is_none_or(|gpu| gpu.eq_ignore_ascii_case(&of.pci_bus_id));
    gpus.iter().filter(is_used).collect()
}

/// Returns the machine's NICs, and a finding when their addresses could not be read.
#[must_use]
pub fn nics_of(host: &Host<'_>) -> (Vec<Nic>, Option<Finding>) {
    match host.facts.addresses() {
        Ok(addresses) => (nics(host.root, &addresses), None),
        Err(error) => {
            let seen = format!("addresses of the interfaces: {error}");
            let finding = Finding::new(&topology::NIC_NOT_EXAMINED, seen);
            (nics(host.root, &[]), Some(finding))
        }
    }
}

/// Returns the names of the NICs with an address: the plugin chooses between these.
fn with_address(nics: &[Nic]) -> Vec<&str> {
    nics.iter().filter(|nic| !nic.ipv4.is_empty()).map(|nic| nic.name.as_str()).collect()
}

fn check_dialect(host: &Host<'_>) -> (Dialects, Option<Finding>) {
    match host.facts.dialects() {
        Ok(dialects @ Dialects { google: true, .. }) => (dialects, None),
        Ok(dialects) => {
            let (diagnosis, seen) = if dialects.mainline {
                (&kernel::DIALECT_MAINLINE_ONLY, "option 80 is known, option 97 is not")
            } else {
                (&kernel::DIALECT_ABSENT, "options 80 and 97 are unknown")
            };
            (dialects, Some(Finding::new(diagnosis, seen)))
        }
        Err(error) => {
            let seen = format!("a TCP socket: {error}");
            (Dialects::default(), Some(Finding::new(&kernel::DIALECT_UNKNOWN, seen)))
        }
    }
}
