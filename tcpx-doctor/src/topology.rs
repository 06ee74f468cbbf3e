//! Which GPUs and NICs the machine has, and how far apart they are on PCI.

mod gpu;
mod nic;
mod overview;
mod pci_path;

pub use gpu::{Gpu, gpus};
pub use nic::{Nic, nics};
pub use overview::render_devices;
pub use pci_path::{Distance, PciPath, distance};

/// The NICs nearest to `gpu`, all at one distance, in the order of `nics`. NICs without a PCI path are left out.
#[must_use]
pub fn nearest_nics<'a>(gpu: &Gpu, nics: &'a [Nic]) -> Vec<(&'a Nic, Distance)> {
    let reachable: Vec<_> =
        nics.iter().filter_map(|nic| Some((nic, gpu_nic_distance(gpu, nic)?))).collect();
    let Some(nearest) = reachable.iter().map(|&(_, distance)| distance).min() else {
        return Vec::new();
    };
    reachable.into_iter().filter(|&(_, distance)| distance == nearest).collect()
}

/// How far `nic` is from `gpu`; `None` when one of them is not on PCI.
#[must_use]
pub fn gpu_nic_distance(gpu: &Gpu, nic: &Nic) -> Option<Distance> {
    Some(distance(gpu.pci_path.as_ref()?, nic.pci_path.as_ref()?, gpu.numa == nic.numa))
}
