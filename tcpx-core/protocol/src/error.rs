//! Errors that programs see: why connection info cannot be used, why bytes are no key to remote
//! memory, and why remote memory is refused, by its owner or by this end before it asks.

use tcpx_wire::sealed::SealError;

use crate::types::memory::OperationKind;

/// Reason why bytes are no usable connection info.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnInfoError {
    /// Fewer bytes than announced.
    #[error("truncated: {have} bytes of {need}")]
    Truncated {
        /// Bytes given.
        have: usize,
        /// Bytes needed at least.
        need: usize,
    },
    /// More bytes than announced.
    #[error("{extra} bytes too many")]
    Trailing {
        /// Bytes past the end.
        extra: usize,
    },
    /// The bytes are something else.
    #[error("these bytes are not connection info of tcpx")]
    Magic,
    /// Made by another version of the library.
    #[error(
        "format version {found}, this library reads {supported}: use the same tcpx on both ends"
    )]
    Version {
        /// Version of the bytes.
        found: u16,
        /// Version of this library.
        supported: u16,
    },
    /// Bits changed on the way.
    #[error("damaged on the way: the checksum does not match")]
    Digest,
    /// The checksum is right, the content is not.
    #[error("malformed: {0}")]
    Body(&'static str),
}

impl From<SealError> for ConnInfoError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Truncated { have, need } => Self::Truncated { have, need },
            SealError::Trailing { extra } => Self::Trailing { extra },
            SealError::Magic => Self::Magic,
            SealError::Version { found, supported } => Self::Version { found, supported },
            SealError::Digest => Self::Digest,
            _ => Self::Body("the envelope cannot be opened"),
        }
    }
}

/// Reason why bytes cannot be used as a [`RemoteKey`](crate::exports::remote_key::RemoteKey).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteKeyError {
    /// The bytes are something else.
    #[error("these bytes are no key of tcpx")]
    Magic,
    /// Made by another version of the library.
    #[error(
        "format version {found}, this library reads {supported}: use the same tcpx on both ends"
    )]
    Version {
        /// Version of the bytes.
        found: u16,
        /// Version of this library.
        supported: u16,
    },
    /// Too few bytes, or too many.
    #[error("{have} bytes, a key has {need}")]
    Length {
        /// Bytes given.
        have: usize,
        /// Bytes of a key.
        need: usize,
    },
    /// Bits changed on the way.
    #[error("damaged on the way: the checksum does not match")]
    Digest,
    /// A kind of memory that is neither host nor device memory.
    #[error("memory of kind {0} is not known")]
    MemoryKind(u8),
    /// No access, or one that is not known.
    #[error("access {0} is not known")]
    Access(u8),
    /// Address or size 0, or past the end of memory.
    #[error("{bytes} bytes at {address:#x} cannot be")]
    Range {
        /// Address of the first byte.
        address: u64,
        /// Size in bytes.
        bytes: u64,
    },
}

/// Reason why memory that was exported, or is said to be, cannot be used in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteProblem {
    /// The key names another session than the one that it is used with. A peer that was started
    /// again is another session.
    #[error("the key is of another session")]
    AnotherSession,
    /// No export has this number and secret.
    #[error("its session knows no such key")]
    UnknownKey,
    /// The range was exported, and is not any more.
    #[error("its export was taken back")]
    Revoked,
    /// A range reaches past the end of what is exported.
    #[error(
        "range {index}: offset {offset} and size {bytes} reach past the {exported_bytes} bytes \
         that are exported"
    )]
    OutOfRange {
        /// Index of the range in the list, from 0.
        index: usize,
        /// Offset in the exported memory at which it begins, in bytes.
        offset: u64,
        /// Number of bytes that it asks for.
        bytes: u64,
        /// Number of bytes that are exported.
        exported_bytes: u64,
    },
    /// The range is exported, but not for this use.
    #[error("it is not exported for peers to {wanted}")]
    Access {
        /// Kind of operation that was wanted.
        wanted: OperationKind,
    },
    /// The two ends of a pair differ in length.
    #[error("pair {index}: {local_bytes} bytes at this end, {remote_bytes} at the other")]
    LengthsDiffer {
        /// Index of the pair, from 0.
        index: usize,
        /// Bytes of the local range.
        local_bytes: u64,
        /// Bytes of the remote range.
        remote_bytes: u64,
    },
    /// No pair has any bytes.
    #[error("none of its pairs has any bytes")]
    Nothing,
    /// Host and device memory on one side of an operation.
    #[error("one list names both host and device memory; prepare an operation for each")]
    MixedMemory,
    /// More ranges than one operation takes.
    #[error("{ranges} ranges; one operation takes {limit}")]
    TooMany {
        /// Ranges of the list, after neighbours were merged.
        ranges: usize,
        /// Most of one operation.
        limit: usize,
    },
    /// The other end has no memory for the list.
    #[error("the system at the other end has no memory for the list")]
    NoMemory,
    /// The other end's hardware plugin only sends from host memory.
    #[error(
        "its plugin cannot receive into host memory; write to GPU memory, or let the \
         other end read"
    )]
    ReceiveIntoHostMemory,
    /// The other end is about to go.
    #[error("its session is leaving")]
    Leaves,
}
