//! GPUs, NICs and their distances on the tree of an A3 High host.

use tcpx_doctor::topology::{Distance, gpu_nic_distance, gpus, nearest_nics, nics, render_devices};

use crate::host_tree::HostTree;

#[test]
fn each_gpu_has_the_nic_of_its_switch() {
    let tree = HostTree::without_rxdm();
    let gpus = gpus(tree.root());
    let nics = nics(tree.root(), &[]);
    let pairs: Vec<(&str, &str, Distance)> = gpus
        .iter()
        .flat_map(|gpu| {
            nearest_nics(gpu, &nics)
                .into_iter()
                .map(|(nic, distance)| (gpu.pci_bus_id.as_str(), nic.name.as_str(), distance))
        })
        .collect();
    assert_eq!(
        pairs,
        [
            ("0000:04:00.0", "eth1", Distance::Pix),
            ("0000:05:00.0", "eth1", Distance::Pix),
            ("0000:0a:00.0", "eth2", Distance::Pix),
            ("0000:0b:00.0", "eth2", Distance::Pix),
            ("0000:84:00.0", "eth3", Distance::Pix),
            ("0000:85:00.0", "eth3", Distance::Pix),
            ("0000:8a:00.0", "eth4", Distance::Pix),
            ("0000:8b:00.0", "eth4", Distance::Pix),
        ]
    );
}

#[test]
fn farther_nics_have_farther_classes() {
    let tree = HostTree::without_rxdm();
    let gpu = &gpus(tree.root())[0];
    let nics = nics(tree.root(), &[]);
    let to = |name: &str| {
        let nic = nics.iter().find(|nic| nic.name == name).expect("a NIC");
        gpu_nic_distance(gpu, nic)
    };
    assert_eq!(to("eth1"), Some(Distance::Pix));
    assert_eq!(to("eth0"), Some(Distance::Phb));
    assert_eq!(to("eth2"), Some(Distance::Phb));
    assert_eq!(to("eth3"), Some(Distance::Sys));
    assert_eq!(to("lo"), None);
}

#[test]
fn a_nic_shows_what_sysfs_says() {
    let tree = HostTree::without_rxdm();
    tree.write("/sys/class/net/bonding_masters", "\n");
    let nics = nics(tree.root(), tree.answers.addresses.as_deref().expect("addresses"));
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
    assert_eq!(nearest_nics(&gpus[0], &nics(tree.root(), &[])), []);
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

#[test]
fn devices_are_shown_for_people() {
    let tree = HostTree::without_rxdm();
    let nics = nics(tree.root(), tree.answers.addresses.as_deref().expect("addresses"));
    let text = render_devices(&gpus(tree.root()), &nics);
    let words = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).expect("a line");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("0000:84:00.0"), "0000:84:00.0 1 yes NVIDIA H100 80GB HBM3 eth3 (PIX)");
    assert_eq!(words("eth3"), "eth3 0000:86:00.0 1 up 200000 8244 gve 10.64.3.7");
    assert_eq!(words("lo"), "lo - - unknown - 65536 - -");
    assert!(render_devices(&[], &[]).contains("\nnone\n"));
}
