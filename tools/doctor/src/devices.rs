//! GPUs and the NICs near them, and their text for `tcpx devices`.

use std::fmt::Write as _;

use tcpx_diagnosis::pci::{Distance, Gpu, Nic, distance};

/// Returns the NICs nearest to `gpu`, all at one distance, in the order of `nics`. NICs without a
/// PCI path are left out.
#[must_use]
pub fn nearest_nics<'a>(gpu: &Gpu, nics: &'a [Nic]) -> Vec<(&'a Nic, Distance)> {
    let reachable: Vec<_> =
        nics.iter().filter_map(|nic| Some((nic, gpu_nic_distance(gpu, nic)?))).collect();
    let Some(nearest) = reachable.iter().map(|&(_, distance)| distance).min() else {
        return Vec::new();
    };
    reachable.into_iter().filter(|&(_, distance)| distance == nearest).collect()
}

/// Returns the distance of `nic` from `gpu`; `None` when one of them is not on PCI.
#[must_use]
pub fn gpu_nic_distance(gpu: &Gpu, nic: &Nic) -> Option<Distance> {
    Some(distance(gpu.pci_path.as_ref()?, nic.pci_path.as_ref()?, gpu.numa == nic.numa))
}

/// Returns two tables as text: GPUs with the NICs nearest to each, then all NICs.
#[must_use]
pub fn render_devices(gpus: &[Gpu], nics: &[Nic]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{:<14}{:<6}{:<8}{:<28}NEAREST NICS", "GPU", "NUMA", "DRIVER", "MODEL");
    for gpu in gpus {
        let near: Vec<String> = nearest_nics(gpu, nics)
            .iter()
            .map(|(nic, distance)| format!("{} ({distance})", nic.name))
            .collect();
        let _ = writeln!(
            text,
            "{:<14}{:<6}{:<8}{:<28}{}",
            gpu.pci_bus_id,
            or_dash(gpu.numa),
            if gpu.has_driver { "yes" } else { "no" },
            or_dash(gpu.model.as_deref()),
            if near.is_empty() { "-".to_owned() } else { near.join(", ") },
        );
    }
    if gpus.is_empty() {
        text.push_str("none\n");
    }
    let _ = writeln!(
        text,
        "\n{:<14}{:<14}{:<6}{:<9}{:<8}{:<7}{:<12}IPV4",
        "NIC", "PCI", "NUMA", "STATE", "MBIT/S", "MTU", "DRIVER"
    );
    for nic in nics {
        let addresses: Vec<String> = nic.ipv4.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "{:<14}{:<14}{:<6}{:<9}{:<8}{:<7}{:<12}{}",
            nic.name,
            or_dash(nic.pci_path.as_ref().map(|path| path.bus_id())),
            or_dash(nic.numa),
            nic.operstate,
            or_dash(nic.speed_mbps),
            or_dash(nic.mtu),
            or_dash(nic.driver.as_deref()),
            if addresses.is_empty() { "-".to_owned() } else { addresses.join(", ") },
        );
    }
    text
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
