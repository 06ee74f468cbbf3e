//! What a test may read in connection info without being a session.

use std::net::{Ipv4Addr, SocketAddr};

/// The IPv4 addresses in connection info, found by their shape: the tag 0, four bytes and a port (varint) at the end of
/// the body.
///
/// # Panics
/// When the bytes are none.
#[must_use]
pub fn control_addresses(conn_info: &[u8]) -> Vec<SocketAddr> {
    // Header 12, session 16, secret 32, then the number of addresses.
    let body = &conn_info[12..conn_info.len() - 8];
    let mut rest = &body[48..];
    let (count, tail) = rest.split_first().expect("a count");
    rest = tail;
    let mut addresses = Vec::new();
    for _ in 0..*count {
        let [0, a, b, c, d, tail @ ..] = rest else { panic!("not an IPv4 address: {rest:?}") };
        let mut port = 0u16;
        let mut used = 0;
        for byte in tail {
            port |= u16::from(byte & 0x7f) << (7 * used);
            used += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        addresses.push(SocketAddr::from((Ipv4Addr::new(*a, *b, *c, *d), port)));
        rest = &tail[used..];
    }
    addresses
}
