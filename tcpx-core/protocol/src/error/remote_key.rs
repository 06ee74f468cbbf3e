//! Why bytes are no key to remote memory.

/// Why bytes cannot be used as a [`RemoteKey`](crate::exports::remote_key::RemoteKey).
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
