//! What travels between two plugins of ours: hello, answer, control record. Pure, and every field
//! is checked.
//!
//! A comm is one control socket and 1..=8 data sockets. The connector opens each of them with a
//! [`Hello`] and the listener replies with an [`Answer`]. After that the control socket carries
//! [`Record`]s from sender to receiver (and, with receive synchronisation, a running 32-bit count
//! of posted receives the other way), and the data sockets carry bare payload. All numbers are
//! little-endian.
//!
//! - `protocol`: numbers and names that both ends know
//! - `hello`: the first bytes on every socket, and the listener's answer
//! - `record`: the records on the control socket
//! - `chunking`: how a message is cut into chunks, and which record may follow which

mod chunking;
mod hello;
mod protocol;
mod record;

pub use chunking::{MessagePart, RecordOrder, chunk_at};
pub use hello::{Answer, ConnectionId, Hello, HelloError, Verdict};
pub use protocol::{
    MAGIC, MAX_CHUNK_BYTES, MAX_INLINE_BYTES, MAX_SOCKETS, Side, SocketRole, VERSION,
};
pub use record::{Record, RecordError};
