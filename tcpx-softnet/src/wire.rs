//! What travels on a comm's sockets. Pure: bytes in, checked values out.
//!
//! - `protocol`: hello, answer and control record
//! - `announce`: whether a control record may follow the ones before it

mod announce;
mod protocol;

pub(crate) use announce::{Announced, Step};
pub(crate) use protocol::{
    Answer, ConnectionId, Hello, MAGIC, MAX_CHUNK_BYTES, MAX_INLINE_BYTES, MAX_SOCKETS, Record,
    RecordError, Role, VERSION, Verdict,
};
