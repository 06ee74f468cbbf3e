//! Findings about NICs and GPUs that keep the plugin from being loaded, or from registering memory.

use std::net::Ipv4Addr;

use tcpx_diagnosis::Severity;
use tcpx_diagnosis::pci::{nic_bytes, nic_speed};

use crate::fixture::host_tree::HostTree;
use crate::fixture::{codes, one};

#[test]
fn no_interface_for_data() {
    let mut tree = HostTree::healthy();
    tree.facts.addresses = Some(Vec::new());
    tree.remove("/sys/class/net");
    assert_eq!(one(&tree.findings(), "TCPX-301").cure, ["ip -br addr"]);
}

#[test]
fn a_data_nic_without_a_pci_device() {
    let mut tree = HostTree::healthy();
    tree.set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "lo");
    tree.facts.addresses.as_mut().expect("addresses").push(("lo".into(), Ipv4Addr::LOCALHOST));
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-304");
    assert_eq!(finding.severity, Severity::FatalForPlugin);
    assert_eq!(finding.seen, "lo has no PCI device");
    assert_eq!(
        finding.cure,
        ["export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4", "# or use plugin = soft"]
    );
}

#[test]
fn what_a_nic_has_moved_and_how_fast_it_is() {
    let tree = HostTree::healthy();
    let read = |speed: &str| {
        tree.write("/sys/class/net/eth1/speed", speed);
        nic_speed(tree.root(), "eth1")
    };
    tree.write("/sys/class/net/eth1/statistics/tx_bytes", "17\n");
    tree.write("/sys/class/net/eth1/statistics/rx_bytes", "18446744073709551615\n");
    assert_eq!(read("200000\n"), Some(200_000));
    assert_eq!(nic_bytes(tree.root(), "eth1"), [17, 0]);
    for unknown in ["-1\n", "0\n", "4294967295\n", ""] {
        assert_eq!(read(unknown), None, "{unknown:?}");
    }
    assert_eq!((nic_speed(tree.root(), "eth77"), nic_bytes(tree.root(), "eth77")), (None, [0, 0]));
}

/// Adds a data NIC at `pci` with an address of its own.
fn with_extra_nic(pci: &str) -> HostTree {
    let mut tree = HostTree::healthy();
    tree.add_nic("eth5", pci, 0);
    tree.set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4,eth5");
    tree.facts
        .addresses
        .as_mut()
        .expect("addresses")
        .push(("eth5".into(), Ipv4Addr::new(10, 64, 5, 7)));
    tree
}

#[test]
fn a_nic_in_another_pci_domain() {
    let findings = with_extra_nic("pci0001:00/0001:00:01.0").findings();
    assert_eq!(codes(&findings), ["TCPX-305"]);
    assert_eq!(findings[0].seen, "eth5 is 0001:00:01.0");
    assert_eq!(findings[0].cure, ["lspci -D", "# choose NICs in domain 0000"]);
}

#[test]
fn a_virtio_nic_has_no_pci_address_at_its_links_end() {
    let findings = with_extra_nic("pci0000:00/0000:00:0d.0/virtio3").findings();
    assert_eq!(codes(&findings), ["TCPX-312"]);
    assert_eq!(findings[0].seen, "eth5's device lies below pci0000:00/0000:00:0d.0");
    assert_eq!(findings[0].cure[0], "readlink -f /sys/class/net/eth5/device");
}

#[test]
fn numa_nodes_that_the_plugin_misreads() {
    for content in ["-1\n", "1\n"] {
        let tree = HostTree::healthy();
        tree.remove("/sys/devices/system/node/node1");
        tree.write("/sys/class/net/eth1/device/numa_node", content);
        let findings = tree.findings();
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
fn a_gpu_that_the_driver_does_not_list() {
    let tree = HostTree::healthy();
    tree.remove("/proc/driver/nvidia/gpus/0000:0b:00.0");
    let findings = tree.findings();
    assert_eq!(codes(&findings), ["TCPX-314"]);
    assert_eq!(findings[0].seen, "0000:0b:00.0 is not in /proc/driver/nvidia/gpus");
    assert_eq!(findings[0].cure, ["nvidia-smi -L", "dmesg | grep -i nvrm"]);
}
