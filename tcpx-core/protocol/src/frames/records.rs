//! Records: how the bytes of a link travel when its ends authenticate them. Pure.
//!
//! After the handshake each direction of the link is a stream of records:
//!
//! ```text
//! length of the body   4 bytes, little endian, 1 to MAX_BODY_BYTES
//! body                 the next bytes of what would be said without records
//! MAC                  16 bytes: BLAKE3, keyed, over number, length and body
//! ```
//!
//! The number of a record is not sent: both ends count from 0. So a record fits in one place of one
//! direction of one connection, and one that was changed, left out, repeated, moved, cut short or
//! made up does not. Frames, and the bytes that follow them, may begin and end anywhere in records.
//! Nothing is hidden: bodies are in clear.
//!
//! - [`authenticator`]: the MACs of one direction.
//! - [`outgoing`]: what is queued, put into records.
//! - [`incoming`]: what has arrived, out of its records.
//! - [`keys`]: which keys a connection has.

pub mod authenticator;
pub mod incoming;
pub mod keys;
pub mod outgoing;
