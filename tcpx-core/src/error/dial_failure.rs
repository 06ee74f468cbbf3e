//! One address at which a peer was not reached.

use std::io::ErrorKind;

/// One address of a peer that was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {error}")]
#[non_exhaustive]
pub struct DialFailure {
    /// The address, with its port.
    pub address: String,
    /// The system's answer as a kind; `None` where something answered that is not the peer.
    pub kind: Option<ErrorKind>,
    /// The answer in words.
    pub error: String,
}
