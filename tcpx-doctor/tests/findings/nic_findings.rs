//! Findings about NICs, GPUs and their places.

use std::net::Ipv4Addr;

use tcpx_doctor::Severity;

use crate::host_tree::HostTree;
use crate::{codes, one};

#[test]
fn no_interface_for_data() {
    let mut tree = HostTree::healthy();
    tree.answers.addresses = Some(Vec::new());
    tree.remove("/sys/class/net");
    assert_eq!(one(&tree.examine(), "TCPX-301").cure, ["ip -br addr"]);
}

#[test]
fn a_nic_is_down() {
    let tree = HostTree::healthy();
    tree.write("/sys/class/net/eth2/operstate", "down\n");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-302"]);
    assert_eq!(findings[0].cure, ["ip link set eth2 up"]);
}

#[test]
fn addresses_cannot_be_read() {
    let mut tree = HostTree::healthy();
    tree.answers.addresses = None;
    let findings = tree.examine();
    assert_eq!(one(&findings, "TCPX-315").cure, ["ip -br -4 addr"]);
    let without: Vec<_> = findings.iter().filter(|f| f.id.to_string() == "TCPX-303").collect();
    assert_eq!(without.len(), 4, "{findings:#?}");
    assert_eq!(without[0].cure[0], "ip -4 addr show dev eth1");
}

#[test]
fn a_data_nic_without_a_pci_device() {
    let mut tree = HostTree::healthy();
    tree.set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "lo");
    tree.answers.addresses.as_mut().expect("addresses").push(("lo".into(), Ipv4Addr::LOCALHOST));
    let findings = tree.examine();
    let finding = one(&findings, "TCPX-304");
    assert_eq!(finding.severity, Severity::FatalForPlugin);
    assert_eq!(finding.seen, "lo has no PCI device");
    assert_eq!(
        finding.cure,
        ["export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4", "# or use plugin = soft"]
    );
}

/// Adds a data NIC at `pci` with an address of its own.
fn with_extra_nic(pci: &str) -> HostTree {
    let mut tree = HostTree::healthy();
    tree.add_nic("eth5", pci, 0);
    tree.set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4,eth5");
    tree.answers
        .addresses
        .as_mut()
        .expect("addresses")
        .push(("eth5".into(), Ipv4Addr::new(10, 64, 5, 7)));
    tree
}

#[test]
fn a_nic_in_another_pci_domain() {
    let findings = with_extra_nic("pci0001:00/0001:00:01.0").examine();
    assert_eq!(codes(&findings), ["TCPX-305"]);
    assert_eq!(findings[0].seen, "eth5 is 0001:00:01.0");
    assert_eq!(findings[0].cure, ["lspci -D", "# choose NICs in domain 0000"]);
}

#[test]
fn a_virtio_nic_has_no_pci_address_at_its_links_end() {
    let findings = with_extra_nic("pci0000:00/0000:00:0d.0/virtio3").examine();
    assert_eq!(codes(&findings), ["TCPX-312"]);
    assert_eq!(findings[0].seen, "eth5's device lies below pci0000:00/0000:00:0d.0");
    assert_eq!(findings[0].cure[0], "readlink -f /sys/class/net/eth5/device");
}

#[test]
fn gpus_without_their_nic() {
    let mut tree = HostTree::healthy();
    tree.set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-306", "TCPX-306"]);
    assert_eq!(findings[0].seen, "the nearest data NIC of 0000:8a:00.0 is eth3, at PHB");
    assert_eq!(findings[1].seen, "the nearest data NIC of 0000:8b:00.0 is eth3, at PHB");
    assert_eq!(
        findings[0].cure,
        [
            "tcpx devices",
            "# choose a GPU with a near NIC, or add that NIC to NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"
        ]
    );
}

#[test]
fn speed_and_mtu() {
    let tree = HostTree::healthy();
    tree.write("/sys/class/net/eth1/speed", "-1\n");
    tree.write("/sys/class/net/eth1/mtu", "1460\n");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-308", "TCPX-307"]);
    assert_eq!(findings[0].seen, "eth1 has an MTU of 1460 bytes");
    assert_eq!(findings[0].cure[0], "ip link set dev eth1 mtu 8244");
    assert_eq!(findings[1].cure, ["cat /sys/class/net/eth1/speed"]);
}

#[test]
fn numa_nodes_that_the_plugin_misreads() {
    for content in ["-1\n", "1\n"] {
        let tree = HostTree::healthy();
        tree.remove("/sys/devices/system/node/node1");
        tree.write("/sys/class/net/eth1/device/numa_node", content);
        let findings = tree.examine();
        let finding =
            findings.iter().find(|finding| finding.seen.starts_with("eth1")).expect("a finding");
        assert_eq!(finding.id.to_string(), "TCPX-309");
        assert_eq!(finding.severity, Severity::FatalForPlugin);
        assert_eq!(
            finding.cure,
            ["cat /sys/class/net/eth1/device/numa_node", "ls /sys/devices/system/node"]
        );
    }
    // With a second node the misreading does no harm.
    let tree = HostTree::healthy();
    tree.write("/sys/class/net/eth1/device/numa_node", "-1\n");
    assert!(codes(&tree.preflight()).is_empty());
}

#[test]
fn two_nics_in_one_subnet() {
    let mut tree = HostTree::healthy();
    let addresses = tree.answers.addresses.as_mut().expect("addresses");
    addresses.retain(|(nic, _)| nic != "eth2");
    addresses.push(("eth2".into(), Ipv4Addr::new(10, 64, 1, 8)));
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-313"]);
    assert_eq!(findings[0].seen, "eth1 has 10.64.1.7, eth2 has 10.64.1.8");
    assert_eq!(findings[0].cure, ["ip -br -4 addr", "ip route get 10.64.1.8"]);
}

#[test]
fn a_gpu_that_the_driver_does_not_list() {
    let tree = HostTree::healthy();
    tree.remove("/proc/driver/nvidia/gpus/0000:0b:00.0");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-314"]);
    assert_eq!(findings[0].seen, "0000:0b:00.0 is not in /proc/driver/nvidia/gpus");
    assert_eq!(findings[0].cure, ["nvidia-smi -L", "dmesg | grep -i nvrm"]);
}
