//! Network interfaces as `/sys/class/net` shows them.

use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::path::{PciPath, is_bus_id};
use crate::machine::tree::Tree;
use crate::report::Finding;
use crate::table::topology;

const INTERFACES: &str = "/sys/class/net";

/// Network interface of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Interface name, `eth1`.
    pub name: String,
    /// Kernel interface index; 0 when unknown.
    pub ifindex: u32,
    /// Place on PCI; `None` for loopback and virtual interfaces.
    pub pci_path: Option<PciPath>,
    /// Whether the interface's `device` link ends in a PCI address, which is all that the plugin
    /// looks at. False for virtio NICs, whose link ends in `virtioN`.
    pub is_pci_function: bool,
    /// Link speed in Mbit/s; `None` when the driver does not say.
    pub speed_mbps: Option<u32>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// IPv4 addresses, in the order given by the kernel.
    pub ipv4: Vec<Ipv4Addr>,
    /// NUMA node; `None` when the machine does not say (−1).
    pub numa: Option<u32>,
    /// Operational state, `up`, `down`, `unknown`.
    pub operstate: String,
    /// Kernel driver, `gve`.
    pub driver: Option<String>,
}

/// Returns the interfaces below `root`, sorted by name, which is also the plugin's order.
///
/// Addresses are not in sysfs, so the caller gives them as pairs of interface name and address
/// ([`Facts::addresses`](crate::Facts::addresses) reads them).
#[must_use]
pub fn nics(root: &Path, addresses: &[(String, Ipv4Addr)]) -> Vec<Nic> {
    let tree = Tree::new(root);
    let interfaces = Path::new(INTERFACES);
    let names = tree.names(interfaces);
    // Files beside the links (bonding_masters) are not interfaces.
    names
        .into_iter()
        .filter(|name| tree.path(interfaces.join(name)).is_dir())
        .map(|name| read(&tree, &interfaces.join(&name), name, addresses))
        .collect()
}

impl Nic {
    /// Returns a finding if the interface is down.
    #[must_use]
    pub fn down(&self) -> Option<Finding> {
        down(&self.name, &self.operstate)
    }
}

/// Returns the bytes that the network interface of this name has sent, and received, since it was
/// made. Reads two files.
#[must_use]
pub fn nic_bytes(root: &Path, name: &str) -> [u64; 2] {
    let (tree, at) = (Tree::new(root), Path::new(INTERFACES).join(name).join("statistics"));
    ["tx_bytes", "rx_bytes"].map(|file| {
        let count = tree.number(at.join(file));
        count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    })
}

/// Returns the speed of the network interface of this name in Mbit/s. `None`: the kernel does not
/// know it. Reads one file.
#[must_use]
pub fn nic_speed(root: &Path, name: &str) -> Option<u32> {
    speed_mbps(&Tree::new(root), &Path::new(INTERFACES).join(name))
}

fn speed_mbps(tree: &Tree<'_>, at: &Path) -> Option<u32> {
    let speed = tree.number(at.join("speed")).and_then(|speed| u32::try_from(speed).ok());
    // A driver that does not know gives 0 or all ones.
    speed.filter(|&speed| speed > 0 && speed < u32::MAX)
}

/// Returns the NUMA node of the network interface of this name; `None` where the system names none.
/// Reads one file.
#[must_use]
pub fn nic_numa(root: &Path, name: &str) -> Option<u32> {
    numa(&Tree::new(root), &Path::new(INTERFACES).join(name))
}

fn numa(tree: &Tree<'_>, at: &Path) -> Option<u32> {
    tree.number(at.join("device/numa_node")).and_then(|node| u32::try_from(node).ok())
}

/// Returns a finding if the network interface of this name is down. Reads one file.
#[must_use]
pub fn nic_down(root: &Path, name: &str) -> Option<Finding> {
    let operstate = Path::new(INTERFACES).join(name).join("operstate");
    down(name, &Tree::new(root).word(operstate)?)
}

fn down(name: &str, operstate: &str) -> Option<Finding> {
    (operstate == "down")
        .then(|| Finding::new(&topology::NIC_DOWN, format!("{name} is down")).with("<NIC>", name))
}

fn read(tree: &Tree<'_>, at: &Path, name: String, addresses: &[(String, Ipv4Addr)]) -> Nic {
    let positive = |file: &str| tree.number(at.join(file)).and_then(|n| u32::try_from(n).ok());
    let device = tree.canonical(at.join("device")).ok();
    let last = device.as_deref().and_then(|device| device.file_name()?.to_str());
    Nic {
        ifindex: positive("ifindex").unwrap_or(0),
        pci_path: device.as_deref().and_then(PciPath::parse),
        is_pci_function: last.is_some_and(is_bus_id),
        speed_mbps: speed_mbps(tree, at),
        mtu: positive("mtu"),
        ipv4: addresses
            .iter()
            .filter(|(nic, _)| *nic == name)
            .map(|&(_, address)| address)
            .collect(),
        numa: numa(tree, at),
        operstate: tree.word(at.join("operstate")).unwrap_or_else(|| "unknown".to_owned()),
        driver: tree
            .canonical(at.join("device/driver"))
            .ok()
            .and_then(|driver| Some(driver.file_name()?.to_str()?.to_owned())),
        name,
    }
}
