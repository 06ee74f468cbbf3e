//! Frames, hellos and records: the bytes of a control link.
//!
//! - [`conn_info`]: what one session must know to reach another, as bytes to give away.
//! - [`hello`]: what both ends say in a handshake, the proof, and what they agree on.
//! - [`eager_terms`]: which small messages they let travel on the link, and what an end makes the
//!   other one keep.
//! - [`link_frame`]: what all frames have in common. [`handshake_frame`]: those until both ends are
//!   proven, and what a session says when it comes in. [`frame`]: those between two peers;
//!   [`messages`]: what they say of messages; [`list_part`]: and of lists of ranges.
//! - [`fields`]: what is in their bodies: numbers, handles of channels, how the bytes of a receive
//!   reach their place.
//! - [`outbound`], [`inbound`]: the buffers of a link, which take no more than what waits in them,
//!   and frames out of what has come.
//! - [`records`]: how the bytes travel when the ends authenticate them.

pub mod conn_info;
pub mod eager_terms;
pub mod fields;
pub mod frame;
pub mod handshake_frame;
pub mod hello;
pub mod inbound;
pub mod link_frame;
pub mod list_part;
pub mod messages;
pub mod outbound;
pub mod records;
