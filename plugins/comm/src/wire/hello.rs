//! Handshake of a socket: the connector's hello and the listener's answer. Pure; every field is
//! checked.

use super::protocol::{MAGIC, MAX_CHUNK_BYTES, MAX_SOCKETS, SocketRole, VERSION, take};

/// Socket index that marks the control socket in a hello.
const CONTROL_INDEX: u16 = u16::MAX;
const FLAG_RECV_SYNC: u16 = 1;
const FLAG_ENCRYPTED: u16 = 2;

/// Random name of one listen comm. Only holders of the comm's handle know the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(
    /// Bytes of the name.
    pub [u8; 16],
);

/// First bytes on every socket, from connector to listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Name of the listen comm.
    pub id: ConnectionId,
    /// Random number of the connect attempt: sockets of different attempts never mix.
    pub attempt: u64,
    /// Role of this socket in the comm.
    pub role: SocketRole,
    /// Number of data sockets that the connector will open.
    pub sockets: u16,
    /// Whether sends wait for their receives.
    pub recv_sync: bool,
    /// Whether the offer of a key follows, and the answer to it follows the reply. Then all that
    /// comes behind is encrypted.
    pub encrypted: bool,
    /// The sender's chunk size in bytes. Every chunk except a message's last has exactly this size.
    pub chunk_bytes: u32,
}

/// Reason why the bytes of a hello were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Magic number of another protocol.
    #[error("magic {0:#018x}")]
    Magic(u64),
    /// Another version of the protocol.
    #[error("version {0}, this end speaks {VERSION}")]
    Version(u16),
    /// Index for which there is no socket.
    #[error("data socket index {index} of {sockets}")]
    Index {
        /// Index in the hello.
        index: u16,
        /// Number of data sockets.
        sockets: u16,
    },
    /// Zero data sockets, or too many.
    #[error("{0} data sockets")]
    Sockets(u16),
    /// Flags without a meaning.
    #[error("flags {0:#06x}")]
    Flags(u16),
    /// Chunk size of zero, or too large.
    #[error("chunk size {0}")]
    Chunk(u32),
    /// Nonzero reserved bytes, which have a meaning in another version.
    #[error("reserved bytes are not zero")]
    Reserved,
}

impl Hello {
    /// Length of a hello in bytes.
    pub const BYTES: usize = 48;

    /// Encodes the hello for the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let index = match self.role {
            SocketRole::Control => CONTROL_INDEX,
            SocketRole::Data(index) => index,
        };
        let flags = if self.recv_sync { FLAG_RECV_SYNC } else { 0 }
            | if self.encrypted { FLAG_ENCRYPTED } else { 0 };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&index.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.sockets.to_le_bytes());
        bytes[14..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id.0);
        bytes[32..40].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        bytes
    }

    /// Decodes a hello.
    ///
    /// # Errors
    /// Returns an error for the first invalid field.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, HelloError> {
        let magic = u64::from_le_bytes(take(bytes, 0));
        if magic != MAGIC {
            return Err(HelloError::Magic(magic));
        }
        let version = u16::from_le_bytes(take(bytes, 8));
        if version != VERSION {
            return Err(HelloError::Version(version));
        }
        let index = u16::from_le_bytes(take(bytes, 10));
        let sockets = u16::from_le_bytes(take(bytes, 12));
        if !(1..=MAX_SOCKETS).contains(&sockets) {
            return Err(HelloError::Sockets(sockets));
        }
        let role = match index {
            CONTROL_INDEX => SocketRole::Control,
            index if index < sockets => SocketRole::Data(index),
            index => return Err(HelloError::Index { index, sockets }),
        };
        let flags = u16::from_le_bytes(take(bytes, 14));
        if flags & !(FLAG_RECV_SYNC | FLAG_ENCRYPTED) != 0 {
            return Err(HelloError::Flags(flags));
        }
        let chunk_bytes = u32::from_le_bytes(take(bytes, 40));
        if !(1..=MAX_CHUNK_BYTES).contains(&chunk_bytes) {
            return Err(HelloError::Chunk(chunk_bytes));
        }
        let reserved: [u8; 4] = take(bytes, 44);
        if reserved != [0; 4] {
            return Err(HelloError::Reserved);
        }
        Ok(Self {
            id: ConnectionId(take(bytes, 16)),
            attempt: u64::from_le_bytes(take(bytes, 32)),
            role,
            sockets,
            recv_sync: flags & FLAG_RECV_SYNC != 0,
            encrypted: flags & FLAG_ENCRYPTED != 0,
            chunk_bytes,
        })
    }
}

/// The listener's reply to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloStatus {
    /// The socket is part of the comm.
    Accepted,
    /// The listen comm has, or is about to have, another peer.
    InUse,
    /// The two ends are configured differently.
    Mismatch,
}

/// The listener's reply to one hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloReply {
    /// Attempt of the hello, so that an answer cannot belong to another socket.
    pub attempt: u64,
    /// Decision about the socket.
    pub status: HelloStatus,
}

impl HelloReply {
    /// Length of an answer in bytes.
    pub const BYTES: usize = 24;

    /// Encodes the answer for the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let status: u64 = match self.status {
            HelloStatus::Accepted => 0,
            HelloStatus::InUse => 1,
            HelloStatus::Mismatch => 2,
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[16..].copy_from_slice(&status.to_le_bytes());
        bytes
    }

    /// Decodes an answer. Returns `None` when the bytes do not answer the hello of `attempt`.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::BYTES], attempt: u64) -> Option<Self> {
        let ours = u64::from_le_bytes(take(bytes, 0)) == MAGIC
            && u64::from_le_bytes(take(bytes, 8)) == attempt;
        let status = match u64::from_le_bytes(take(bytes, 16)) {
            0 => HelloStatus::Accepted,
            1 => HelloStatus::InUse,
            2 => HelloStatus::Mismatch,
            _ => return None,
        };
        ours.then_some(Self { attempt, status })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello {
            id: ConnectionId(*b"0123456789abcdef"),
            attempt: 0xfeed,
            role: SocketRole::Data(2),
            sockets: 3,
            recv_sync: false,
            encrypted: false,
            chunk_bytes: 524_288,
        }
    }

    #[test]
    fn each_damaged_hello_field_is_refused() {
        let damaged = |at: usize, value: u8| {
            let mut bytes = hello().encode();
            bytes[at] = value;
            Hello::decode(&bytes)
        };
        assert!(matches!(damaged(0, 0), Err(HelloError::Magic(_))));
        assert!(matches!(damaged(8, 2), Err(HelloError::Version(2))));
        assert!(matches!(damaged(10, 3), Err(HelloError::Index { index: 3, sockets: 3 })));
        assert!(matches!(damaged(12, 0), Err(HelloError::Sockets(0))));
        assert!(matches!(damaged(12, 9), Err(HelloError::Sockets(9))));
        assert!(matches!(damaged(14, 4), Err(HelloError::Flags(4))));
        assert!(matches!(damaged(43, 0xff), Err(HelloError::Chunk(_))));
        assert!(matches!(damaged(47, 1), Err(HelloError::Reserved)));
    }

    #[test]
    fn an_answer_belongs_to_one_attempt() {
        let answer = HelloReply { attempt: 5, status: HelloStatus::InUse };
        assert_eq!(HelloReply::decode(&answer.encode(), 5), Some(answer));
        assert_eq!(HelloReply::decode(&answer.encode(), 6), None);
        assert_eq!(HelloReply::decode(&[0; HelloReply::BYTES], 0), None);
    }

    proptest! {
        #[test]
        fn hello_survives_the_wire(
            id: [u8; 16], attempt: u64, sockets in 1..=MAX_SOCKETS, index: u16, recv_sync: bool,
            encrypted: bool, chunk_bytes in 1..=MAX_CHUNK_BYTES,
        ) {
            let role = match index % 4 {
                0 => SocketRole::Control,
                _ => SocketRole::Data(index % sockets),
            };
            let id = ConnectionId(id);
            let hello = Hello { id, attempt, role, sockets, recv_sync, encrypted, chunk_bytes };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }
}
