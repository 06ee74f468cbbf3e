//! Frames, hellos and records: the bytes of a control link.
//!
//! - [`conn_info`]: knowledge that one session needs to reach another, as bytes to give away.
//! - [`hello`]: hellos of both ends in a handshake, the proof, and their agreement.
//! - [`eager_terms`]: terms of small messages on the link, and of what an end makes the other one
//!   keep.
//! - [`link_frame`]: the common part of all frames. [`handshake_frame`]: frames until both ends are
//!   proven, with the introduction of a session that comes in. [`frame`]: frames between two peers;
//!   [`messages`]: their statements on messages; [`list_part`]: and on lists of ranges.
//! - [`fields`]: fields of their bodies: numbers, handles of channels, the delivery of a receive's
//!   bytes.
//! - [`outbound`], [`inbound`]: the buffers of a link, which take no more than the bytes that wait
//!   in them, and frames out of the bytes that have come.
//! - [`records`]: the form in which the bytes travel when the ends encrypt them.

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
