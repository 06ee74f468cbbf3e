//! Distances of GPUs and NICs on the tree of an A3 High host.

use tcpx_diagnosis::pci::{Distance, gpus, nics};
use tcpx_doctor::{gpu_nic_distance, nearest_nics, render_devices};

use crate::fixture::host_tree::HostTree;

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
fn a_gpu_without_a_pci_path_has_no_nearest_nic() {
    let tree = HostTree::without_rxdm();
    tree.remove("/sys/bus/pci/devices");
    let gpus = gpus(tree.root());
    assert_eq!(nearest_nics(&gpus[0], &nics(tree.root(), &[])), []);
}

#[test]
fn devices_are_formatted_as_tables() {
    let tree = HostTree::without_rxdm();
    let nics = nics(tree.root(), tree.facts.addresses.as_deref().expect("addresses"));
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
