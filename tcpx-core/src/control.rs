//! The control link: how two sessions find each other, prove themselves, and talk beside the comms.
//!
//! Reaching a peer:
//! - [`identity`]: what a session says of itself, and the secret that proves it.
//! - [`connector`]: the connecting end of a handshake. [`approach`]: the way to one address.
//!   [`dialing`]: its connection, on the way.
//! - [`listener`]: the table of inbound handshakes. [`listening_sockets`]: where they come from.
//! - [`admission`]: which connections have a place in that table. `refusal_log`: what the log says
//!   of the others.
//! - [`inbound_handshake`]: the listening end of one handshake.
//! - [`channel_offer`]: how many channels a session offers.
//!
//! The socket of a link; what its bytes are is the protocol's (`tcpx_protocol::frames`):
//! - [`socket`]: a non-blocking TCP connection with a buffer each way.
//! - [`epoll_set`]: which of many sockets are ready.
//! - [`send_room`]: how many bytes the kernel takes at once.
//! - [`acknowledgement`]: whether the peer's host still acknowledges what is sent.
//!
//! `refusal_tests` drives both ends of a handshake against incompatible ones.

pub(crate) mod acknowledgement;
mod admission;
mod approach;
pub(crate) mod channel_offer;
pub(crate) mod connector;
mod dialing;
pub(crate) mod epoll_set;
pub(crate) mod identity;
pub(crate) mod inbound_handshake;
pub(crate) mod listener;
mod listening_sockets;
mod refusal_log;
#[cfg(test)]
mod refusal_tests;
mod send_room;
pub(crate) mod shared_bytes;
pub(crate) mod socket;
