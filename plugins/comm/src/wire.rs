//! Wire protocol between two tcpx plugins: hello, answer, control record. Pure; every field is
//! checked.
//!
//! A comm is one control socket and 1..=8 data sockets. The connector opens each socket with a
//! [`Hello`] and the listener replies with a [`HelloReply`]. After that, the control socket carries
//! [`Record`]s from sender to receiver, and the data sockets carry bare payload. With receive
//! synchronisation, the control socket also carries a running 32-bit count of posted receives in
//! the other direction. All numbers are little-endian.
//!
//! - `protocol`: numbers and names that both ends know
//! - `hello`: the first bytes on every socket, and the listener's answer
//! - `record`: the records on the control socket
//! - `chunking`: the cutting of a message into chunks, and the order of records

mod chunking;
mod hello;
mod protocol;
mod record;

pub use chunking::{MessagePart, RecordOrder, chunk_at};
pub use hello::{ConnectionId, Hello, HelloError, HelloReply, HelloStatus};
pub use protocol::{
    MAGIC, MAX_CHUNK_BYTES, MAX_INLINE_BYTES, MAX_SOCKETS, Side, SocketRole, VERSION,
};
pub use record::{Record, RecordError};
