//! Congestion control of connections that stay on this host.
//!
//! BBR spreads what it sends over time, by a timer for each packet. Between two hosts that is what
//! its user wants. Within one there is no queue to spare, and the timers cost a third of the
//! throughput. Such a connection is given Reno, which every Linux has and every user may choose.
//!
//! This must happen before the connection is established: one that was ever paced stays so.

use std::net::Ipv4Addr;

use socket2::Socket;

use crate::log;

const UNPACED: &[u8] = b"reno";

/// Sees to it that a connection which is about to be made between these addresses is not paced, if
/// it stays on this host.
pub(super) fn prepare(socket: &Socket, from: Ipv4Addr, to: Ipv4Addr) {
    if !stays_here(from, to) {
        return;
    }
    let changed = match socket.tcp_congestion() {
        Ok(name) if paces(&name) => socket.set_tcp_congestion(UNPACED),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = changed {
        // It is slower then, and nothing else.
        log::info!("congestion control of a connection within the host is unchanged: {error}");
    }
}

fn stays_here(from: Ipv4Addr, to: Ipv4Addr) -> bool {
    to.is_loopback() || from == to
}

/// Returns whether a congestion control of this name paces by itself. The system fills up with
/// zeros.
fn paces(name: &[u8]) -> bool {
    name.starts_with(b"bbr")
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Protocol, Type};

    use super::*;

    const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const NIC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// What a socket with this congestion control has after it was prepared; `None` where the
    /// system does not offer it.
    fn prepared(name: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Option<Vec<u8>> {
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        socket.set_tcp_congestion(name).ok()?;
        prepare(&socket, from, to);
        let mut name = socket.tcp_congestion().expect("it has one");
        name.retain(|byte| *byte != 0);
        Some(name)
    }

    #[test]
    fn only_what_is_paced_and_stays_on_the_host_changes() {
        assert_eq!(prepared(b"reno", LOCAL, LOCAL).as_deref(), Some(UNPACED));
        for (name, is_left) in [(&b"cubic"[..], true), (&b"bbr"[..], false)] {
            let Some(after) = prepared(name, NIC, NIC) else { continue };
            assert_eq!(after, if is_left { name } else { UNPACED });
            assert_eq!(prepared(name, NIC, OTHER).as_deref(), Some(name), "it leaves the host");
        }
    }

    #[test]
    fn a_host_knows_its_own_addresses() {
        assert!(stays_here(NIC, NIC) && stays_here(NIC, LOCAL) && stays_here(LOCAL, LOCAL));
        assert!(!stays_here(NIC, OTHER) && !stays_here(LOCAL, OTHER));
    }

    #[test]
    fn every_version_of_bbr_paces() {
        assert!(paces(b"bbr\0\0\0") && paces(b"bbr2") && !paces(b"cubic\0") && !paces(b"reno"));
    }
}
