//! Findings about the reachability of a peer.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tcpx_diagnosis::pci::nics;
use tcpx_doctor::check_peer;
use tcpx_testkit::PATIENCE;

use crate::fixture::codes;
use crate::fixture::host_tree::{HostTree, soon};

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[test]
fn a_peer_that_listens() {
    let listener = TcpListener::bind(loopback(0)).expect("a listener");
    let peer = listener.local_addr().expect("an address");
    let findings = check_peer(peer, &[], PATIENCE);
    assert_eq!(codes(&findings), ["TCPX-909"]);
    assert_eq!(findings[0].cure[0], "ip -br -4 addr");
}

#[test]
fn a_peer_that_does_not_listen() {
    // The port stays reserved, and no process listens at it.
    let reserved = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    reserved.bind(&loopback(0).into()).expect("a port");
    let peer = reserved.local_addr().expect("an address").as_socket().expect("IPv4");
    let findings = check_peer(peer, &[], PATIENCE);
    assert_eq!(codes(&findings), ["TCPX-909", "TCPX-607"]);
    assert_eq!(
        findings[1].cure,
        ["ss -ltn", "# start the server first, and use the address it shows"]
    );
}

#[test]
fn a_peer_behind_a_firewall() {
    // A listener whose queue is full drops what comes, as a firewall does.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&loopback(0).into()).expect("a port");
    socket.listen(0).expect("a listener");
    let peer = socket.local_addr().expect("an address").as_socket().expect("IPv4");
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&peer, Duration::from_millis(100)) {
        held.push(stream);
        assert!(held.len() < 16, "the queue never fills");
    }
    let start = Instant::now();
    let findings = check_peer(peer, &[], soon());
    assert_eq!(codes(&findings), ["TCPX-909", "TCPX-606"]);
    assert_eq!(findings[1].cure[0], "ip route get 127.0.0.1");
    assert!(start.elapsed() >= soon() && start.elapsed() < PATIENCE);
}

#[test]
fn a_peer_that_is_out_of_reach() {
    // 0.0.0.0/8 beyond the unspecified address is refused by the kernel itself.
    let peer = SocketAddr::from((Ipv4Addr::new(255, 255, 255, 255), 12345));
    let findings = check_peer(peer, &[], PATIENCE);
    assert_eq!(codes(&findings), ["TCPX-610"]);
    assert_eq!(findings[0].cure, ["ip route get 255.255.255.255", "ip -br addr"]);
}

#[test]
fn a_peer_on_this_host() {
    let tree = HostTree::without_rxdm();
    let nics = nics(tree.root(), &[("eth1".to_owned(), Ipv4Addr::new(10, 64, 1, 7))]);
    let peer = SocketAddr::from((Ipv4Addr::new(10, 64, 1, 7), 9));
    let findings = check_peer(peer, &nics, Duration::from_millis(1));
    assert_eq!(findings[0].id.to_string(), "TCPX-311");
    assert_eq!(findings[0].seen, "10.64.1.7 belongs to eth1 of this host");
    assert_eq!(findings[0].cure, ["# run the two ends on two hosts, or use plugin = soft"]);
}
