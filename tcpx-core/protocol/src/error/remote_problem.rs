//! Why remote memory is refused: by its owner, or by this end before it asks.

use crate::types::remote_access::OperationKind;

/// Why memory that was exported, or is said to be, cannot be used so.
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
    /// It was exported, and is not any more.
    #[error("its export was taken back")]
    Revoked,
    /// A range reaches past the end of what is exported.
    #[error(
        "range {index}: offset {offset} and size {bytes} reach past the {exported_bytes} bytes \
         that are exported"
    )]
    OutOfRange {
        /// Which range of the list, from 0.
        index: usize,
        /// Where in the exported memory it begins, in bytes.
        offset: u64,
        /// How many bytes it asks for.
        bytes: u64,
        /// How many bytes are exported.
        exported_bytes: u64,
    },
    /// It is exported, but not for this.
    #[error("it is not exported for peers to {wanted}")]
    Access {
        /// What was to be done with it.
        wanted: OperationKind,
    },
    /// The two ends of a pair differ in length.
    #[error("pair {index}: {local_bytes} bytes at this end, {remote_bytes} at the other")]
    LengthsDiffer {
        /// Which pair, from 0.
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
