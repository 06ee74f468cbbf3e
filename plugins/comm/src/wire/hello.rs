//! What opens a socket: the connector's hello and the listener's answer. Pure; every field is
//! checked.

use super::protocol::{MAGIC, MAX_CHUNK_BYTES, MAX_SOCKETS, SocketRole, VERSION, take};

/// Socket index that marks the control socket in a hello.
const CONTROL_INDEX: u16 = u16::MAX;
const FLAG_RECV_SYNC: u16 = 1;

/// Random name of one listen comm, known only to those who were given its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(
    /// The name.
    pub [u8; 16],
);

/// First bytes on every socket, connector to listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which listen comm is meant.
    pub id: ConnectionId,
    /// Random, one per connect attempt: sockets of different attempts never mix.
    pub attempt: u64,
    /// Which socket of the comm this one is.
    pub role: SocketRole,
    /// Data sockets that the connector will open.
    pub sockets: u16,
    /// Whether sends wait for their receives.
    pub recv_sync: bool,
    /// The sender's chunk size: every chunk but a message's last has exactly this many bytes.
    pub chunk_bytes: u32,
}

/// Why hello bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Not ours.
    #[error("magic {0:#018x}")]
    Magic(u64),
    /// Another version.
    #[error("version {0}, this end speaks {VERSION}")]
    Version(u16),
    /// No socket has this index.
    #[error("data socket index {index} of {sockets}")]
    Index {
        /// The index.
        index: u16,
        /// How many data sockets there are.
        sockets: u16,
    },
    /// None, or too many.
    #[error("{0} data sockets")]
    Sockets(u16),
    /// Some that have no meaning.
    #[error("flags {0:#06x}")]
    Flags(u16),
    /// None, or too large.
    #[error("chunk size {0}")]
    Chunk(u32),
    /// They have a meaning in another version.
    #[error("reserved bytes are not zero")]
    Reserved,
}

impl Hello {
    /// Bytes of a hello.
    pub const BYTES: usize = 48;

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let index = match self.role {
            SocketRole::Control => CONTROL_INDEX,
            SocketRole::Data(index) => index,
        };
        let flags = if self.recv_sync { FLAG_RECV_SYNC } else { 0 };
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

    /// Reads one.
    ///
    /// # Errors
    /// The first field that is not allowed.
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
        if flags & !FLAG_RECV_SYNC != 0 {
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
            chunk_bytes,
        })
    }
}

/// What the listener says to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The socket is part of the comm.
    Accepted,
    /// The listen comm has, or is about to have, another peer.
    InUse,
    /// The two ends are configured differently.
    Mismatch,
}

/// The listener's reply to one hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The hello's attempt, so that an answer cannot belong to another socket.
    pub attempt: u64,
    /// What becomes of the socket.
    pub verdict: Verdict,
}

impl Answer {
    /// Bytes of an answer.
    pub const BYTES: usize = 24;

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let verdict: u64 = match self.verdict {
            Verdict::Accepted => 0,
            Verdict::InUse => 1,
            Verdict::Mismatch => 2,
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[16..].copy_from_slice(&verdict.to_le_bytes());
        bytes
    }

    /// `None` when the bytes are not an answer to the hello of `attempt`.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::BYTES], attempt: u64) -> Option<Self> {
        let ours = u64::from_le_bytes(take(bytes, 0)) == MAGIC
            && u64::from_le_bytes(take(bytes, 8)) == attempt;
        let verdict = match u64::from_le_bytes(take(bytes, 16)) {
            0 => Verdict::Accepted,
            1 => Verdict::InUse,
            2 => Verdict::Mismatch,
            _ => return None,
        };
        ours.then_some(Self { attempt, verdict })
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
        let answer = Answer { attempt: 5, verdict: Verdict::InUse };
        assert_eq!(Answer::decode(&answer.encode(), 5), Some(answer));
        assert_eq!(Answer::decode(&answer.encode(), 6), None);
        assert_eq!(Answer::decode(&[0; Answer::BYTES], 0), None);
    }

    proptest! {
        #[test]
        fn hello_survives_the_wire(
            id: [u8; 16], attempt: u64, sockets in 1..=MAX_SOCKETS, index: u16, recv_sync: bool,
            chunk_bytes in 1..=MAX_CHUNK_BYTES,
        ) {
            let role = match index % 4 {
                0 => SocketRole::Control,
                _ => SocketRole::Data(index % sockets),
            };
            let id = ConnectionId(id);
            let hello = Hello { id, attempt, role, sockets, recv_sync, chunk_bytes };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }
}
