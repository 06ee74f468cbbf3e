//! Control link: discovery of a peer, mutual authentication, and the messages beside the comms.
//!
//! Reaching a peer:
//! - [`identity`]: what a session announces, the secret that proves it, and its channel offer.
//! - [`connector`]: the connecting end of a handshake. [`approach`]: the way to one address.
//!   [`key_exchange`]: exchange of keys at that end.
//! - [`listener`]: the table of inbound handshakes. [`listening_sockets`]: where they come from.
//! - [`admission`]: policy that gives connections a place in that table, and the log of the others.
//! - [`inbound_handshake`]: the listening end of one handshake.
//! - [`tls`]: exchange of keys, where the link is encrypted.
//!
//! The socket of a link. The protocol (`tcpx_protocol::frames`) defines its bytes:
//! - [`socket`]: a non-blocking TCP connection with a buffer each way.
//! - [`epoll_set`]: set of sockets that reports which of them are ready.
//!
//! `refusal_tests` drives both ends of a handshake against incompatible ones, and
//! `encryption_tests` against ends that lie.

mod admission;
mod approach;
pub(crate) mod connector;
#[cfg(test)]
mod encryption_tests;
pub(crate) mod epoll_set;
pub(crate) mod identity;
pub(crate) mod inbound_handshake;
mod key_exchange;
pub(crate) mod listener;
mod listening_sockets;
#[cfg(test)]
mod refusal_tests;
pub(crate) mod shared_bytes;
pub(crate) mod socket;
pub(crate) mod tls;
