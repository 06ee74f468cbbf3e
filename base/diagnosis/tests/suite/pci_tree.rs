//! GPUs and NICs as the files of an A3 High host show them.

use tcpx_diagnosis::pci::{gpus, nics};

use crate::fixture::host_tree::HostTree;

#[test]
fn a_nic_shows_what_sysfs_says() {
    let tree = HostTree::without_rxdm();
    tree.write("/sys/class/net/bonding_masters", "\n");
    let nics = nics(tree.root(), tree.facts.addresses.as_deref().expect("addresses"));
    let names: Vec<_> = nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["eth0", "eth1", "eth2", "eth3", "eth4", "lo"]);
    let nic = &nics[3];
    assert_eq!(nic.pci_path.as_ref().map(|path| path.bus_id()), Some("0000:86:00.0"));
    assert!(nic.is_pci_function);
    assert_eq!((nic.speed_mbps, nic.mtu, nic.numa), (Some(200_000), Some(8244), Some(1)));
    assert_eq!(
        (nic.ifindex, nic.operstate.as_str(), nic.driver.as_deref()),
        (5, "up", Some("gve"))
    );
    assert_eq!(nic.ipv4, [std::net::Ipv4Addr::new(10, 64, 3, 7)]);
    assert_eq!(nics[5].pci_path, None);
}

#[test]
fn a_gpu_is_found_by_the_driver_alone() {
    let tree = HostTree::without_rxdm();
    tree.remove("/sys/bus/pci/devices");
    let gpus = gpus(tree.root());
    assert_eq!(gpus.len(), 8);
    assert_eq!(gpus[0].model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!(gpus[0].pci_path, None);
}

#[test]
fn other_pci_devices_are_no_gpus() {
    let tree = HostTree::without_rxdm();
    tree.remove("/proc/driver/nvidia/gpus");
    // An NVSwitch: NVIDIA's, but a bridge.
    tree.write("/sys/bus/pci/devices/0000:91:00.0/vendor", "0x10de\n");
    tree.write("/sys/bus/pci/devices/0000:91:00.0/class", "0x068000\n");
    // Another vendor's display.
    tree.write("/sys/bus/pci/devices/0000:92:00.0/vendor", "0x1a03\n");
    tree.write("/sys/bus/pci/devices/0000:92:00.0/class", "0x030000\n");
    assert_eq!(gpus(tree.root()).len(), 8);
}
