//! Choice of the NICs that a peer's channels run over, the speeds of their links, and their limits
//! of the chunk size.

use std::net::IpAddr;
use std::path::Path;

use tcpx_diagnosis::Tree;
use tcpx_diagnosis::pci::{Gpu, PciPath, distance, nic_numa, nic_speed};
use tcpx_protocol::types::nic::{NicLink, NicLinks};

use crate::error::{Error, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::chunk_size::ChunkLimit;
use crate::plugin::{Nic, Plugin};

/// NICs that a session may use, as the system described them when the session was made.
#[derive(Debug, Default)]
pub(crate) struct SessionNics {
    /// Those that the options name. Without names those of a hardware plugin that are nearest to
    /// the GPU on PCI, or all if the distances are unknown, and all of the software plugin.
    nics: Vec<(Nic, NicLink)>,
    /// Interfaces of this host by name, each with an address.
    interfaces: Vec<(String, IpAddr)>,
    /// Whether each peer gets one of the NICs. Otherwise each gets all.
    are_candidates: bool,
}

impl SessionNics {
    /// Makes the list for a session with this device memory. `wanted`: an explicit choice, which
    /// wins. Reads up to three files for each NIC.
    ///
    /// # Errors
    /// [`Error::NoNic`] for a name that no NIC has.
    pub(crate) fn new(plugin: &Plugin, wanted: &[String], memory: &DeviceMemory) -> Result<Self> {
        let is_choice = !wanted.is_empty();
        let nics = match plugin.is_hardware() {
            _ if is_choice => by_name(plugin.nics(), wanted)?,
            true => nearest(plugin.nics(), memory.described().as_ref(), Path::new("/")),
            false => plugin.nics().to_vec(),
        };
        let link = |nic: &Nic| NicLink::new(&nic.name, nic_speed(Path::new("/"), &nic.name));
        let nics = nics.into_iter().map(|nic| (link(&nic), nic)).map(|(link, nic)| (nic, link));
        Ok(Self {
            nics: nics.collect(),
            interfaces: interfaces(),
            are_candidates: !is_choice && !plugin.is_hardware(),
        })
    }

    /// Returns the NICs for a peer that is reached from `local`. Over the software plugin, without
    /// a choice, it is the NIC of the control link, so that both ends meet on a network that is
    /// known to work.
    fn of(&self, local: Option<IpAddr>) -> &[(Nic, NicLink)] {
        if !self.are_candidates {
            return &self.nics;
        }
        let local = local.map(|ip| ip.to_canonical());
        let name_in = |interfaces: &[(String, IpAddr)]| {
            let carries = |(_, ip): &&(String, IpAddr)| Some(*ip) == local;
            interfaces.iter().find(carries).map(|(name, _)| name.clone())
        };
        // An address may be younger than the session.
        let name = local.and_then(|_| name_in(&self.interfaces).or_else(|| name_in(&interfaces())));
        let place = self.nics.iter().position(|(nic, _)| Some(&nic.name) == name.as_ref());
        let place = place.unwrap_or(0);
        self.nics.get(place..=place).unwrap_or_default()
    }

    /// Returns the NICs for the channels of a peer that is reached from `local`, at least one.
    ///
    /// # Errors
    /// [`Error::NoNic`] where the plugin has none.
    pub(crate) fn choose(&self, local: Option<IpAddr>) -> Result<Vec<Nic>> {
        let nics: Vec<Nic> = self.of(local).iter().map(|(nic, _)| nic.clone()).collect();
        if nics.is_empty() { Err(no_nic("of any name", &[])) } else { Ok(nics) }
    }

    /// Returns the same NICs with the speeds of their links.
    pub(crate) fn links(&self, local: Option<IpAddr>) -> NicLinks {
        NicLinks::first(self.of(local).iter().map(|(_, link)| link.clone()))
    }
}

/// Returns the limits of a session's chunks: the plugin's own, and with the hardware plugin the
/// packet sizes of every NIC that the session may use.
///
/// # Errors
/// The same as those of [`SessionNics::choose`].
pub(crate) fn chunk_limits(
    plugin: &Plugin,
    nics: &SessionNics,
    memory: &DeviceMemory,
) -> Result<Vec<ChunkLimit>> {
    let mut limits = vec![ChunkLimit::Plugin { bytes: plugin.chunk_bytes() }];
    if plugin.takes_packets(memory) {
        limits.extend(packet_limits(&nics.choose(None)?, Tree::new(Path::new("/"))));
    }
    Ok(limits)
}

/// Returns the limits of the NICs whose MTU the system reports.
fn packet_limits(nics: &[Nic], files: Tree<'_>) -> Vec<ChunkLimit> {
    let limit_of = |nic: &Nic| {
        let mtu = files.number(Path::new("/sys/class/net").join(&nic.name).join("mtu"))?;
        Some(ChunkLimit::Packets { nic: nic.name.clone(), mtu: u32::try_from(mtu).ok()? })
    };
    nics.iter().filter_map(limit_of).collect()
}

/// Returns the NICs of an explicit choice, in its order.
///
/// # Errors
/// [`Error::NoNic`] for a name that no NIC has.
fn by_name(nics: &[Nic], wanted: &[String]) -> Result<Vec<Nic>> {
    let find = |name: &String| {
        nics.iter().find(|nic| nic.name == *name).cloned().ok_or_else(|| no_nic(name, nics))
    };
    wanted.iter().map(find).collect()
}

fn no_nic(wanted: &str, nics: &[Nic]) -> Error {
    let available = nics.iter().map(|nic| nic.name.clone()).collect();
    Error::NoNic { wanted: wanted.to_owned(), available }
}

/// Returns the NICs at the smallest distance from a GPU, or all if no distance is known. Where no
/// host bridge is shared, those of the GPU's NUMA node are nearer; `root` has the nodes.
fn nearest(nics: &[Nic], gpu: Option<&Gpu>, root: &Path) -> Vec<Nic> {
    let distance_of = |nic: &Nic| {
        let (gpu, path) = (gpu?, PciPath::parse(nic.pci_path.as_deref()?)?);
        Some(distance(gpu.pci_path.as_ref()?, &path, gpu.numa == nic_numa(root, &nic.name)))
    };
    let Some(smallest) = nics.iter().filter_map(distance_of).min() else { return nics.to_vec() };
    nics.iter().filter(|nic| distance_of(nic) == Some(smallest)).cloned().collect()
}

/// Returns the NUMA nodes of NICs for the log: one number where all are on one node, else one for
/// each NIC in their order, `0, 1`. Reads a file for each.
pub(crate) fn nodes(root: &Path, nics: &NicLinks) -> String {
    let node = |nic: &NicLink| match nic_numa(root, &nic.name) {
        Some(node) => node.to_string(),
        None => "unknown".to_owned(),
    };
    let mut nodes: Vec<String> = nics.0.iter().map(node).collect();
    if nodes.iter().all(|node| *node == nodes[0]) {
        nodes.truncate(1);
    }
    if nodes.is_empty() { "unknown".to_owned() } else { nodes.join(", ") }
}

/// Returns the IPv4 addresses of this host's interfaces that are up, loopback last.
pub(crate) fn local_addresses() -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = if_addrs::get_if_addrs()
        .unwrap_or_default()
        .iter()
        .map(if_addrs::Interface::ip)
        .filter(IpAddr::is_ipv4)
        .collect();
    addresses.sort_by_key(IpAddr::is_loopback);
    addresses.dedup();
    addresses
}

/// Returns this host's interfaces by name, each with an address.
pub(crate) fn interfaces() -> Vec<(String, IpAddr)> {
    let all = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    all.map(|interface| (interface.name.clone(), interface.ip())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, pci_path: &str) -> Nic {
        Nic {
            index: 0,
            name: name.to_owned(),
            pci_path: Some(pci_path.into()),
            speed_mbps: 200_000,
        }
    }

    /// Returns the topology of an A3 High host: two switches below each host bridge, two GPUs and a
    /// NIC below each switch.
    fn a3_high() -> (Vec<Nic>, Vec<(&'static str, &'static str)>) {
        let below = |switch: &str, device: &str| format!("/sys/devices/pci{switch}/{device}");
        let nics = vec![
            nic("eth1", &below("0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0", "0000:06:00.0")),
            nic("eth2", &below("0000:00/0000:00:02.0/0000:07:00.0/0000:08:02.0", "0000:0c:00.0")),
            nic("eth3", &below("0000:80/0000:80:01.0/0000:81:00.0/0000:82:02.0", "0000:86:00.0")),
            nic("eth4", &below("0000:80/0000:80:02.0/0000:87:00.0/0000:88:02.0", "0000:8c:00.0")),
        ];
        let gpus = vec![
            ("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:04:00.0", "eth1"),
            ("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:05:00.0", "eth1"),
            ("/sys/devices/pci0000:00/0000:00:02.0/0000:07:00.0/0000:08:00.0/0000:0a:00.0", "eth2"),
            ("/sys/devices/pci0000:00/0000:00:02.0/0000:07:00.0/0000:08:01.0/0000:0b:00.0", "eth2"),
            ("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:84:00.0", "eth3"),
            ("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:85:00.0", "eth3"),
            ("/sys/devices/pci0000:80/0000:80:02.0/0000:87:00.0/0000:88:00.0/0000:8a:00.0", "eth4"),
            ("/sys/devices/pci0000:80/0000:80:02.0/0000:87:00.0/0000:88:01.0/0000:8b:00.0", "eth4"),
        ];
        (nics, gpus)
    }

    fn names(nics: &[Nic]) -> Vec<&str> {
        nics.iter().map(|nic| nic.name.as_str()).collect()
    }

    /// Returns the GPU at this place, on this NUMA node.
    fn gpu(place: &str, numa: u32) -> Gpu {
        let pci_path = PciPath::parse(place.as_ref());
        let pci_bus_id = pci_path.as_ref().unwrap().bus_id().to_owned();
        Gpu { pci_bus_id, pci_path, numa: Some(numa), has_driver: true, model: None }
    }

    /// A root in which each of these NICs is on this NUMA node.
    fn machine(nodes: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, node) in nodes {
            let device = root.path().join("sys/class/net").join(name).join("device");
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("numa_node"), node).unwrap();
        }
        root
    }

    #[test]
    fn each_gpu_of_an_a3_high_gets_the_nic_beside_it() {
        let (nics, gpus) = a3_high();
        let root = machine(&[("eth1", "0\n"), ("eth2", "0\n"), ("eth3", "1\n"), ("eth4", "1\n")]);
        for (place, expected) in gpus {
            let found = nearest(&nics, Some(&gpu(place, 0)), root.path());
            assert_eq!(names(&found), [expected], "{place}");
        }
    }

    #[test]
    fn below_other_host_bridges_the_nics_of_the_gpus_node_are_used() {
        let (nics, _) = a3_high();
        let root = machine(&[("eth1", "0\n"), ("eth2", "0\n"), ("eth3", "1\n"), ("eth4", "1\n")]);
        let place = "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0";
        let used = |node| nearest(&nics, Some(&gpu(place, node)), root.path());
        assert_eq!(names(&used(0)), ["eth1", "eth2"]);
        assert_eq!(names(&used(1)), ["eth3", "eth4"]);
        assert_eq!(used(2).len(), 4, "all are on other nodes");
        let unnamed = machine(&[("eth1", "-1\n"), ("eth3", "-1\n")]);
        let no_node = Gpu { numa: None, ..gpu(place, 0) };
        assert_eq!(nearest(&nics, Some(&no_node), unnamed.path()).len(), 4, "no node is known");
    }

    #[test]
    fn a_log_line_names_the_nodes_of_nics() {
        let root = machine(&[("eth1", "0\n"), ("eth2", "0\n"), ("eth3", "1\n"), ("eth4", "-1\n")]);
        for (names, expected) in [
            (&["eth1"][..], "0"),
            (&["eth1", "eth2"], "0"),
            (&["eth2", "eth3", "eth1"], "0, 1, 0"),
            (&["eth3", "eth4", "lo"], "1, unknown, unknown"),
            (&["eth4", "lo"], "unknown"),
            (&[], "unknown"),
        ] {
            let links = NicLinks::first(names.iter().map(|name| NicLink::new(name, None)));
            assert_eq!(nodes(root.path(), &links), expected, "{names:?}");
        }
    }

    #[test]
    fn equally_near_nics_are_all_used_and_so_are_all_when_nothing_is_known() {
        let (mut nics, gpus) = a3_high();
        nics[1] = nic(
            "eth2",
            "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:03.0/0000:0d:00.0",
        );
        let (gpu, root) = (gpu(gpus[0].0, 0), machine(&[]));
        assert_eq!(names(&nearest(&nics, Some(&gpu), root.path())), ["eth1", "eth2"]);
        assert_eq!(nearest(&nics, None, root.path()).len(), 4);
        let virtual_nics: Vec<Nic> =
            nics.into_iter().map(|nic| Nic { pci_path: None, ..nic }).collect();
        assert_eq!(nearest(&virtual_nics, Some(&gpu), root.path()).len(), 4);
    }

    #[test]
    fn every_nic_whose_mtu_is_known_bounds_a_chunk() {
        let root = tempfile::tempdir().unwrap();
        for (name, mtu) in [("eth1", "8244\n"), ("eth2", "1500\n"), ("eth3", ""), ("eth5", "68\n")]
        {
            let folder = root.path().join("sys/class/net").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("mtu"), mtu).unwrap();
        }
        let (nics, _) = a3_high();
        let limit = |nic: &str, mtu| ChunkLimit::Packets { nic: nic.to_owned(), mtu };
        let found = packet_limits(&nics, Tree::new(root.path()));
        assert_eq!(found, [limit("eth1", 8244), limit("eth2", 1500)]);
    }

    #[test]
    fn an_explicit_choice_keeps_its_order_and_is_checked() {
        let (nics, _) = a3_high();
        assert_eq!(
            names(&by_name(&nics, &["eth2".into(), "eth1".into()]).unwrap()),
            ["eth2", "eth1"]
        );
        let error = by_name(&nics, &["eth9".into()]).unwrap_err().to_string();
        assert!(error.contains("eth9") && error.contains("eth1, eth2, eth3, eth4"), "{error}");
    }
}
