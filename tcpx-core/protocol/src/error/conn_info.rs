//! Why connection info cannot be used.

use tcpx_wire::sealed::SealError;

/// Why bytes are no usable connection info.
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
