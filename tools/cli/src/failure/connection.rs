//! Errors of the connection between the two ends of a command.

use std::io::Error;
use std::net::SocketAddr;

use crate::deadline::Deadline;

/// Reason why the connection with the other end was not made, or was lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error(
        "{address}: port is in use; stop the program that listens there or choose another with \
         --port: {error}"
    )]
    PortInUse { address: SocketAddr, error: Error },
    #[error(
        "no client connected to {address} within {waited}{others}; start it with this host's \
         address, or wait longer with --timeout"
    )]
    NoClient { address: SocketAddr, waited: Deadline, others: String },
    #[error("process {pid}, started here as the other end, did not connect within {waited}")]
    LocalServerSilent { pid: u32, waited: Deadline },
    #[error(
        "no server at {address} within {waited}: {tried}: {error}; start it there, or check \
         address, --port and firewall"
    )]
    NoServer { address: String, waited: Deadline, tried: SocketAddr, error: Error },
    #[error(
        "no server at {address} within {waited}: {tried}: {error}; a server listens on IPv4 \
         alone by default: give its IPv4 address, or start it with --bind ::"
    )]
    NoServerOverIpv6 { address: String, waited: Deadline, tried: SocketAddr, error: Error },
    #[error(
        "{peer} runs tcpx {theirs} and this end tcpx {ours} (rendezvous version {their_version} \
         and {our_version}), which do not work together; install one release on both hosts"
    )]
    OtherRelease {
        peer: SocketAddr,
        theirs: String,
        ours: &'static str,
        their_version: u16,
        our_version: u16,
    },
    #[error("{peer} has another token; give both ends the one that the server shows")]
    OtherToken { peer: SocketAddr },
    #[error(
        "{peer} requires a token, and this end has none; give both ends the one that the server \
         shows: --token TOKEN"
    )]
    TokenWanted { peer: SocketAddr },
    #[error("{peer} asks for no token, so it may be another program; start it with --token too")]
    NoTokenWanted { peer: SocketAddr },
    #[error(
        "server address \"{address}\": {reason}; give a host name or address, with :PORT if it is \
         not --port: 10.0.0.1, 10.0.0.1:12345, [fe80::1]:12345"
    )]
    BadAddress { address: String, reason: String },
    #[error("server {address}: {reason}; see what the name service says, or give its address")]
    UnknownHost { address: String, reason: String },
    #[error(
        "the other end ({peer}) closed the connection while this end was {doing}; see what it \
         printed, or whether it was ended"
    )]
    Closed { peer: SocketAddr, doing: String },
    #[error(
        "the other end ({peer}) sent no {awaited} within {waited}; is it stopped, or does it need \
         a longer --timeout?"
    )]
    Silent { peer: SocketAddr, awaited: &'static str, waited: Deadline },
    #[error(
        "the other end ({peer}) took no {sent} within {waited}; is it stopped, or does it need \
         a longer --timeout?"
    )]
    Stuck { peer: SocketAddr, sent: &'static str, waited: Deadline },
    #[error(
        "{peer} does not speak this protocol: {reason}; only `tcpx` of the same version connects \
         here"
    )]
    Garbage { peer: SocketAddr, reason: String },
}

impl ConnectionError {
    /// Returns whether a connection was lost.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Silent { .. } | Self::Stuck { .. })
    }
}
