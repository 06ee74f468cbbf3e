//! Bytes of a message.
//!
//! - `pattern`: in the sender's buffer, so that every byte tells where it belongs;
//! - `unpack_row`: as a plugin publishes them to the receiver, scattered over entries of the unpack
//!   queue.

pub(crate) mod pattern;
pub(crate) mod unpack_row;
