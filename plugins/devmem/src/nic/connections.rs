//! TCP connections of this network namespace that a process has, as `/proc/net/tcp` and `tcp6` list
//! them. Connections of dead processes remain listed without an inode.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the local address and the peer's address of each connection.
pub(super) fn read() -> io::Result<Vec<(SocketAddr, SocketAddr)>> {
    let mut all = parse(&std::fs::read_to_string("/proc/net/tcp")?);
    // A kernel may lack the newer family.
    all.extend(parse(&std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default()));
    Ok(all)
}

fn parse(table: &str) -> Vec<(SocketAddr, SocketAddr)> {
    let read = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let ends = (address(words.next()?)?, address(words.next()?)?);
        let inode: u64 = words.nth(6)?.parse().ok()?;
        (inode != 0).then_some(ends)
    };
    table.lines().skip(1).filter_map(read).collect()
}

/// Parses `0100007F:1F90`: words of 32 bits in the machine's byte order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
        let Some(word) = host.get(at * 8..at * 8 + 8) else { break };
        place.copy_from_slice(&u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
    }
    match host.len() {
        8 => Some((Ipv4Addr::from(*bytes.first_chunk::<4>()?), port).into()),
        // To a NIC, an IPv4 connection of an IPv6 socket is an IPv4 connection.
        32 => Some((Ipv6Addr::from(bytes).to_canonical(), port).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn lines_of_both_families_are_read() {
        let head = "  sl  local_address rem_address   st\n";
        let old = format!("{head}   0: 0100007F:1F90 0200000A:0001 01 0:0 00:0 0 0 0 77\n");
        let pair = |from: &str, to: &str| (from.parse().expect("local"), to.parse().expect("peer"));
        assert_eq!(parse(&old), [pair("127.0.0.1:8080", "10.0.0.2:1")]);
        let mapped = "0000000000000000FFFF00000100007F:0050";
        let new = format!(
            "{head} 1: {mapped} 000077FD000000000000000002000000:0002 01 0:0 00:0 0 0 0 78 1\n"
        );
        assert_eq!(parse(&new), [pair("127.0.0.1:80", "[fd77::2]:2")]);
        let orphan = "0: 0100007F:1F90 0200000A:0001 06 0:0 00:0 0 0 0 0";
        let short = "0: 0100007F:1F90 0200000A:0001 01 0:0";
        for line in ["", "0:", "0: x:y z:1", "0: 01:1 01:2", "0: é:1 ü:2", orphan, short] {
            assert_eq!(parse(&format!("{head}{line}\n")), [], "{line}");
        }
    }

    #[test]
    fn a_connection_of_this_process_is_listed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let ends = (near.local_addr().expect("local"), near.peer_addr().expect("peer"));
        assert!(read().expect("it is listed").contains(&ends));
    }
}
