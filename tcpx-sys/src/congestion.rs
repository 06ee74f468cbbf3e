//! Congestion control of connections that stay on this host.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use socket2::SockRef;

const UNPACED: &[u8] = b"reno";

/// Has a connection between these addresses of this host sent without pacing. A connection that
/// leaves the host keeps the system's congestion control. `from` is `None` where the system is to
/// choose the address.
///
/// BBR spreads what it sends over time, by a timer for each packet. Between two hosts that is what
/// its user wants. Within one there is no queue to spare, and the timers cost a third of the
/// throughput. Such a connection is given Reno, which every Linux has and every user may choose.
///
/// At best this is called before the connection is established: the system goes on to space the
/// packets of one that was ever paced, at the rate of its window.
///
/// Where the system does not say or change what the socket has, it is slower, and nothing else.
pub fn unpace_within_host(socket: &impl AsFd, from: Option<IpAddr>, to: IpAddr) {
    let socket = SockRef::from(socket);
    let changed = match socket.tcp_congestion() {
        Ok(name) if paces(&name) && stays_here(from, to) => socket.set_tcp_congestion(UNPACED),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = changed {
        tracing::info!(%error, "the congestion control of a connection within the host is unchanged");
    }
}

fn stays_here(from: Option<IpAddr>, to: IpAddr) -> bool {
    let to = to.to_canonical();
    let is_here = |from: IpAddr| from.to_canonical() == to;
    to.is_loopback() || from.or_else(|| source(to)).is_some_and(is_here)
}

/// Returns the address that the system chooses for what is sent to another. Nothing is sent.
fn source(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Any port: there need be no socket.
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Returns whether a congestion control of this name paces by itself. The system fills up with
/// zeros.
fn paces(name: &[u8]) -> bool {
    name.starts_with(b"bbr")
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// What a socket with this congestion control has after it was prepared; `None` where the
    /// system does not offer it.
    fn prepared(name: &[u8], from: Option<IpAddr>, to: IpAddr) -> Option<Vec<u8>> {
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        socket.set_tcp_congestion(name).ok()?;
        unpace_within_host(&socket, from, to);
        let mut name = socket.tcp_congestion().expect("it has one");
        name.retain(|byte| *byte != 0);
        Some(name)
    }

    #[test]
    fn only_what_is_paced_and_stays_on_the_host_changes() {
        let (local, nic, other) = (ip("127.0.0.1"), ip("10.0.0.1"), ip("10.0.0.2"));
        assert_eq!(prepared(b"reno", None, local).as_deref(), Some(UNPACED));
        for (name, is_left) in [(&b"cubic"[..], true), (&b"bbr"[..], false)] {
            let Some(after) = prepared(name, Some(nic), nic) else { continue };
            assert_eq!(after, if is_left { name } else { UNPACED });
            assert_eq!(
                prepared(name, Some(nic), other).as_deref(),
                Some(name),
                "it leaves the host"
            );
        }
    }

    #[test]
    fn a_host_knows_its_own_addresses() {
        let (nic, other) = (ip("10.0.0.1"), ip("10.0.0.2"));
        for local in ["127.0.0.1", "127.0.0.5", "::1", "::ffff:127.0.0.1"].map(ip) {
            assert!(stays_here(None, local) && stays_here(Some(nic), local), "{local}");
        }
        assert!(stays_here(Some(nic), nic) && stays_here(Some(ip("::ffff:10.0.0.1")), nic));
        assert!(!stays_here(Some(nic), other) && !stays_here(Some(ip("127.0.0.1")), other));
        // An address for documentation, which no host has.
        assert!(!stays_here(None, ip("192.0.2.77")));
    }

    #[test]
    fn every_version_of_bbr_paces() {
        assert!(paces(b"bbr\0\0\0") && paces(b"bbr2") && !paces(b"cubic\0") && !paces(b"reno"));
    }
}
