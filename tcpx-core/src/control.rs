//! The control link: how two sessions find each other, prove themselves, and talk beside the comms.
//!
//! Reaching a peer:
//! - [`identity`]: what a session says of itself, and the secret that proves it; how many channels
//!   it offers.
//! - [`connector`]: the connecting end of a handshake. [`approach`]: the way to one address.
//! - [`listener`]: the table of inbound handshakes. [`listening_sockets`]: where they come from.
//! - [`admission`]: which connections have a place in that table, and what the log says of the
//!   others.
//! - [`inbound_handshake`]: the listening end of one handshake.
//!
//! The socket of a link; what its bytes are is the protocol's (`tcpx_protocol::frames`):
//! - [`socket`]: a non-blocking TCP connection with a buffer each way.
//! - [`epoll_set`]: which of many sockets are ready.
//! - [`tcp_info`]: how many bytes the kernel takes at once, and whether the peer's host still
//!   acknowledges what is sent.
//!
//! `refusal_tests` drives both ends of a handshake against incompatible ones.

mod admission;
mod approach;
pub(crate) mod connector;
pub(crate) mod epoll_set;
pub(crate) mod identity;
pub(crate) mod inbound_handshake;
pub(crate) mod listener;
mod listening_sockets;
#[cfg(test)]
mod refusal_tests;
pub(crate) mod shared_bytes;
pub(crate) mod socket;
pub(crate) mod tcp_info;
