//! Connections of a host that reach an attacker of the test's in place of their listener.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};

use rustix::net::sockopt::ip_original_dst;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::network::{Network, in_namespace};
use crate::pair::Side;

/// Address from which an attacker goes on: its own connections are not redirected.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// Has every TCP connection that a host of this network makes reach `attacker` on the same host,
/// but those to the port `spared`. Needs the `nft` command.
///
/// # Errors
/// What `nft` said.
pub fn redirect(
    network: &Network,
    side: Side,
    spared: u16,
    attacker: SocketAddrV4,
) -> Result<(), String> {
    let (own, source) = (attacker.port(), ATTACKER);
    let rules = format!(
        "add table ip attacked; delete table ip attacked; add table ip attacked; \
         add chain ip attacked out {{ type nat hook output priority -100; }}; \
         add rule ip attacked out ip saddr != {source} tcp dport != {{ {own}, {spared} }} \
         redirect to :{own}"
    );
    in_namespace(network, side, &["nft", &rules])
}

/// Connects to where a redirected connection was to go.
///
/// # Errors
/// It was not redirected, or nothing listens there.
pub fn dial_original(redirected: &TcpStream) -> io::Result<TcpStream> {
    let listener = ip_original_dst(redirected)?;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrV4::new(ATTACKER, 0))?;
    connect(&socket, &listener)?;
    Ok(TcpStream::from(socket))
}
