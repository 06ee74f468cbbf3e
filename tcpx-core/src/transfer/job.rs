//! What is copied for one chunk.

use tcpx_protocol::types::{Direction, RegistrationKey};

use crate::types::PeerKey;

/// One chunk: where its fragments lie, where they belong, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) bounce: u64,
    pub(crate) dst: u64,
    pub(crate) dst_bytes: u64,
    pub(crate) label: JobLabel,
}

/// Whose chunk a job is, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobLabel {
    pub(crate) peer: PeerKey,
    /// Received and unpacked, or gathered to be sent.
    pub(crate) direction: Direction,
    pub(crate) channel: u16,
    /// Where it is copied to; of a chunk to be sent, where one of its messages is copied from.
    pub(crate) registration: RegistrationKey,
    pub(crate) tag: i64,
    /// Number of the chunk in its message, from 0.
    pub(crate) chunk: u64,
}
