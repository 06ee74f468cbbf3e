//! Reachability of a peer.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::pci::Nic;
use tcpx_diagnosis::table::{limits as table, topology, transfer};

/// Connects to `peer` within `deadline`, closes the connection at once, and returns the findings.
/// `nics` are this host's.
///
/// `peer` should be a control port, such as that of `tcpx transfer server`: a listen comm of the
/// plugin would accept the connection as its peer's.
#[must_use]
pub fn check_peer(peer: SocketAddr, nics: &[Nic], deadline: Duration) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shown = peer.ip().to_string();
    if peer.ip().is_loopback() {
        let seen = format!("{shown} is a loopback address");
        findings.push(Finding::new(&transfer::LOOPBACK_ADDRESS, seen));
    } else if let Some(nic) = owner(peer.ip(), nics) {
        let seen = format!("{shown} belongs to {} of this host", nic.name);
        findings.push(Finding::new(&topology::PEER_IS_THIS_HOST, seen));
    }
    // connect_timeout refuses a deadline of zero.
    let deadline = deadline.max(Duration::from_millis(1));
    if let Err(error) = TcpStream::connect_timeout(&peer, deadline) {
        let diagnosis = match error.kind() {
            io::ErrorKind::ConnectionRefused => &table::PEER_REFUSES,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => &table::PEER_TIMES_OUT,
            _ => &table::PEER_UNREACHABLE,
        };
        findings
            .push(Finding::new(diagnosis, format!("{peer}: {error}")).with("<ADDRESS>", &shown));
    }
    findings
}

/// Returns the NIC of this host that has `address`.
fn owner(address: IpAddr, nics: &[Nic]) -> Option<&Nic> {
    let IpAddr::V4(address) = address else { return None };
    nics.iter().find(|nic| nic.ipv4.contains(&address))
}
