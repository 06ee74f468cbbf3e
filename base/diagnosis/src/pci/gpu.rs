//! NVIDIA GPUs as `/sys/bus/pci` and the driver's `/proc` files show them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::path::{PciPath, is_bus_id};
use crate::machine::tree::Tree;

const NVIDIA_VENDOR: &str = "0x10de";
/// PCI base class 3, display controllers, with or without a monitor.
const DISPLAY_CLASS: &str = "0x03";

/// NVIDIA GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Lower-case PCI address with its domain, `0000:04:00.0`: the form in RxDM's socket names.
    pub pci_bus_id: String,
    /// Place on PCI; `None` when only the driver's files show the GPU, as in some containers.
    pub pci_path: Option<PciPath>,
    /// NUMA node, or `None` when the machine does not say (−1).
    pub numa: Option<u32>,
    /// Whether the NVIDIA kernel driver is bound to the GPU.
    pub has_driver: bool,
    /// The driver's name for the GPU, `NVIDIA H100 80GB HBM3`.
    pub model: Option<String>,
}

/// Returns the NVIDIA GPUs below `root`, sorted by PCI address: the union of the PCI bus and the
/// driver's list.
#[must_use]
pub fn gpus(root: &Path) -> Vec<Gpu> {
    let tree = Tree::new(root);
    let devices = Path::new("/sys/bus/pci/devices");
    let starts =
        |file: &Path, prefix: &str| tree.word(file).is_some_and(|word| word.starts_with(prefix));
    let mut bus_ids: Vec<String> = tree
        .names(devices)
        .into_iter()
        .filter(|name| {
            starts(&devices.join(name).join("vendor"), NVIDIA_VENDOR)
                && starts(&devices.join(name).join("class"), DISPLAY_CLASS)
        })
        .chain(tree.names("/proc/driver/nvidia/gpus").into_iter().filter(|name| is_bus_id(name)))
        .map(|name| name.to_ascii_lowercase())
        .collect();
    bus_ids.sort_unstable();
    bus_ids.dedup();
    bus_ids.into_iter().map(|bus_id| read(&tree, devices, bus_id)).collect()
}

fn read(tree: &Tree<'_>, devices: &Path, pci_bus_id: String) -> Gpu {
    let device = devices.join(&pci_bus_id);
    let information = Path::new("/proc/driver/nvidia/gpus").join(&pci_bus_id).join("information");
    let information = tree.text(information).ok();
    let model = information.as_deref().and_then(|text| {
        let (_, value) = text.lines().find_map(|line| line.split_once("Model:"))?;
        Some(value.trim().to_owned())
    });
    Gpu {
        pci_path: tree.canonical(&device).ok().as_deref().and_then(PciPath::parse),
        numa: tree.number(device.join("numa_node")).and_then(|node| u32::try_from(node).ok()),
        has_driver: information.is_some(),
        model,
        pci_bus_id,
    }
}
