//! Parts of connection info that a test may read and change without being a session.

use std::net::{Ipv4Addr, SocketAddr};

use tcpx_wire::sealed::Envelope;

/// What connection info is sealed in.
const ENVELOPE: Envelope = Envelope { magic: *b"TCPXINFO", version: 3 };
/// Session, secret, setting of encryption and kind of credential: what stands before the addresses.
const IDENTITY_BYTES: usize = SESSION_BYTES + SECRET_BYTES + 2;
const SESSION_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;

/// The IPv4 addresses in connection info, found by their shape: the tag 0, four bytes and a port
/// (varint) at the end of the body.
///
/// # Panics
/// When the bytes are none.
#[must_use]
pub fn control_addresses(conn_info: &[u8]) -> Vec<SocketAddr> {
    let (_, addresses) = identity_and_addresses(conn_info);
    let (count, mut rest) = addresses.split_first().expect("a count");
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

/// The same connection info with another address in place of all of its own: that of a proxy.
///
/// # Panics
/// When the bytes are none.
#[must_use]
pub fn with_address(conn_info: &[u8], ip: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut changed = identity_and_addresses(conn_info).0.to_vec();
    changed.extend_from_slice(&[1, 0]);
    changed.extend_from_slice(&ip.octets());
    let mut rest = port;
    while rest >= 0x80 {
        changed.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    changed.push(rest as u8);
    ENVELOPE.seal(&changed)
}

/// The secret in connection info.
///
/// # Panics
/// When the bytes are none.
#[must_use]
pub fn secret_of(conn_info: &[u8]) -> &[u8] {
    &identity_and_addresses(conn_info).0[SESSION_BYTES..][..SECRET_BYTES]
}

fn identity_and_addresses(conn_info: &[u8]) -> (&[u8], &[u8]) {
    ENVELOPE.open(conn_info).expect("connection info").split_at(IDENTITY_BYTES)
}
