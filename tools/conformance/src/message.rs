//! Bytes of a message.
//!
//! - `pattern`: the bytes in the sender's buffer, which depend on message and offset;
//! - `unpack_row`: the bytes as a plugin publishes them to the receiver, scattered over entries of
//!   the unpack queue.

pub(crate) mod pattern;
pub(crate) mod unpack_row;
