//! Findings about NICs and GPUs, and their placement.

use std::net::Ipv4Addr;

use crate::fixture::{codes, one};
use crate::machine::Machine;

#[test]
fn a_nic_is_down() {
    let tree = Machine::healthy();
    tree.write("/sys/class/net/eth2/operstate", "down\n");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-302"]);
    assert_eq!(findings[0].cure, ["ip link set eth2 up"]);
}

#[test]
fn addresses_cannot_be_read() {
    let mut tree = Machine::healthy();
    tree.facts.addresses = None;
    let findings = tree.examine();
    assert_eq!(one(&findings, "TCPX-315").cure, ["ip -br -4 addr"]);
    let without: Vec<_> = findings.iter().filter(|f| f.id.to_string() == "TCPX-303").collect();
    assert_eq!(without.len(), 4, "{findings:#?}");
    assert_eq!(without[0].cure[0], "ip -4 addr show dev eth1");
}

#[test]
fn gpus_without_their_nic() {
    let mut tree = Machine::healthy();
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
    let tree = Machine::healthy();
    tree.write("/sys/class/net/eth1/speed", "-1\n");
    tree.write("/sys/class/net/eth1/mtu", "1460\n");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-308", "TCPX-307"]);
    assert_eq!(findings[0].seen, "eth1 has an MTU of 1460 bytes");
    assert_eq!(findings[0].cure[0], "ip link set dev eth1 mtu 8244");
    assert_eq!(findings[1].cure, ["cat /sys/class/net/eth1/speed"]);
}

#[test]
fn two_nics_in_one_subnet() {
    let mut tree = Machine::healthy();
    let addresses = tree.facts.addresses.as_mut().expect("addresses");
    addresses.retain(|(nic, _)| nic != "eth2");
    addresses.push(("eth2".into(), Ipv4Addr::new(10, 64, 1, 8)));
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-313"]);
    assert_eq!(findings[0].seen, "eth1 has 10.64.1.7, eth2 has 10.64.1.8");
    assert_eq!(findings[0].cure, ["ip -br -4 addr", "ip route get 10.64.1.8"]);
}
