//! Frames, hellos and records: the bytes of a control link.
//!
//! - [`conn_info`]: what one session must know to reach another, as bytes to give away.
//! - [`hello`]: what both ends say in a handshake, the proof, and what they agree on.
//!   [`introduction`]: what a session says when it comes in.
//! - [`eager_terms`]: which small messages they let travel on the link.
//! - [`link_frame`]: what all frames have in common. [`handshake_frame`]: those until both ends are
//!   proven. [`frame`]: those between two peers.
//! - [`fields`]: what is in their bodies, one behind the other.
//! - [`link_part`]: some bytes of an operation that travels on the link.
//! - [`channel_handle`]: what the other end connects a channel with.
//! - [`keeping`]: what an end makes the other one keep.
//! - [`delivery`]: how the bytes of a receive reach their place, as a frame announces it.
//! - [`outbound`], [`inbound`]: the buffers of a link, which take no more than what waits in them.
//!   [`arrived_frames`]: frames out of what has come.
//! - [`records`]: how the bytes travel when the ends authenticate them.

pub mod arrived_frames;
pub mod channel_handle;
pub mod conn_info;
pub mod delivery;
pub mod eager_terms;
pub mod fields;
pub mod frame;
pub mod handshake_frame;
pub mod hello;
pub mod inbound;
pub mod introduction;
pub mod keeping;
pub mod link_frame;
pub mod link_part;
pub mod outbound;
pub mod records;
