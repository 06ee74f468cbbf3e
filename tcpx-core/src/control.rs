//! The control link: how two sessions find each other, prove themselves, and talk beside the comms.
//!
//! Reaching a peer:
//! - [`conn_info`]: what one session must know to reach another, as bytes to give away.
//! - [`identity`]: what a session says of itself, and the secret that proves it.
//! - [`connector`]: the connecting end of a handshake. [`approach`]: the way to one address.
//!   [`dialing`]: its connection, on the way.
//! - [`listener`]: the table of inbound handshakes. [`listening_sockets`]: where they come from.
//! - [`admission`]: which connections have a place in that table. `refusal_log`: what the log says
//!   of the others.
//! - [`inbound_handshake`]: the listening end of one handshake.
//! - [`introduction`]: what a session says when it comes in.
//! - [`hello`]: what both ends say in a handshake, the proof, and what they agree on.
//! - [`eager_terms`]: which small messages they let travel on the link. [`channel_offer`]: how many
//!   channels a session offers.
//!
//! The bytes of a link:
//! - [`socket`]: a non-blocking TCP connection with a buffer each way.
//! - [`outbound`], [`inbound`]: those buffers, which take no more than what waits in them.
//! - [`arrived_frames`]: frames out of what has come.
//! - [`records`]: how the bytes travel when the ends authenticate them.
//! - [`epoll_set`]: which of many sockets are ready.
//! - [`send_room`]: how many bytes the kernel takes at once.
//! - [`acknowledgement`]: whether the peer's host still acknowledges what is sent.
//! - [`link_frame`]: what all frames have in common.
//! - [`handshake_frame`]: the frames until both ends are proven.
//! - [`frame`]: the frames between two peers.
//! - [`fields`]: what is in their bodies, one behind the other.
//! - [`link_part`]: some bytes of an operation that travels on the link.
//! - [`keeping`]: what an end makes the other one keep.
//! - [`delivery`]: how the bytes of a receive reach their place, as a frame announces it.
//!
//! `refusal_tests` drives both ends of a handshake against incompatible ones.

pub(crate) mod acknowledgement;
mod admission;
mod approach;
mod arrived_frames;
pub(crate) mod channel_offer;
pub(crate) mod conn_info;
pub(crate) mod connector;
pub(crate) mod delivery;
mod dialing;
pub(crate) mod eager_terms;
pub(crate) mod epoll_set;
mod fields;
pub(crate) mod frame;
pub(crate) mod handshake_frame;
pub(crate) mod hello;
pub(crate) mod identity;
mod inbound;
pub(crate) mod inbound_handshake;
pub(crate) mod introduction;
pub(crate) mod keeping;
pub(crate) mod link_frame;
pub(crate) mod link_part;
pub(crate) mod listener;
mod listening_sockets;
mod outbound;
pub(crate) mod records;
mod refusal_log;
#[cfg(test)]
mod refusal_tests;
mod send_room;
pub(crate) mod shared_bytes;
pub(crate) mod socket;
