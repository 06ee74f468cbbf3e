//! NICs that the plugin takes for data, and their properties that make it crash or refuse.

use std::path::Path;

use crate::machine::tree::Tree;
use crate::pci::Nic;
use crate::report::Finding;
use crate::table::topology as table;
use crate::variables::{DATA_INTERFACES, Env, select_interfaces, value};

/// Returns the NICs that the plugin will take for data. When no address is known, these are the
/// NICs that the environment names.
#[must_use]
pub fn data_nics<'a>(env: &Env, nics: &'a [Nic]) -> Vec<&'a Nic> {
    let has_addresses = nics.iter().any(|nic| !nic.ipv4.is_empty());
    let names: Vec<&str> = nics
        .iter()
        .filter(|nic| !has_addresses || !nic.ipv4.is_empty())
        .map(|nic| nic.name.as_str())
        .collect();
    let chosen = select_interfaces(value(env, DATA_INTERFACES), &names);
    nics.iter().filter(|nic| chosen.contains(&nic.name.as_str())).collect()
}

/// Returns properties of the data NICs that would make the plugin crash or refuse. Reads only
/// files.
pub(crate) fn check_hazards(tree: &Tree<'_>, data: &[&Nic]) -> Vec<Finding> {
    if data.is_empty() {
        return vec![Finding::new(&table::NIC_MISSING, "no interface is left for data")];
    }
    data.iter().flat_map(|nic| [check_pci(nic), check_numa_hazard(tree, nic)]).flatten().collect()
}

fn check_pci(nic: &Nic) -> Option<Finding> {
    let name = &nic.name;
    let (diagnosis, seen) = match &nic.pci_path {
        None => (&table::NIC_WITHOUT_PCI, format!("{name} has no PCI device")),
        Some(path) if !nic.is_pci_function => {
            (&table::NIC_NOT_A_PCI_FUNCTION, format!("{name}'s device lies below {path}"))
        }
        Some(path) if path.domain() != "0000" => {
            (&table::NIC_DOMAIN, format!("{name} is {}", path.bus_id()))
        }
        Some(_) => return None,
    };
    Some(Finding::new(diagnosis, seen).with("<NIC>", name))
}

/// Checks the NUMA node. The plugin reads the CPU list of node 0 when `numa_node` starts with 0,
/// otherwise of node 1, and does not check whether the file could be opened.
fn check_numa_hazard(tree: &Tree<'_>, nic: &Nic) -> Option<Finding> {
    let file = Path::new("/sys/class/net").join(&nic.name).join("device/numa_node");
    let content = tree.word(file)?;
    let node = if content.starts_with('0') { 0 } else { 1 };
    let list = format!("/sys/devices/system/node/node{node}/cpulist");
    (!tree.exists(&list)).then(|| {
        let seen = format!("{} has numa_node {content}, and {list} does not exist", nic.name);
        Finding::new(&table::NUMA_NODE_HAZARD, seen).with("<NIC>", &nic.name)
    })
}
