//! Queues of what a program takes out: completions, notifications and events of peers; and the
//! descriptor for its event loop.
//!
//! - `queue`: rounds that have ended and that the program has not taken yet.
//! - `notification_queue`: notifications that the program has not taken yet.
//! - `peer_queue`: peers that have come up or ended, and by which connections. Pure.
//! - `signals`: notification of threads that wait in a call, and the descriptor.

pub(crate) mod notification_queue;
pub(crate) mod peer_queue;
pub(crate) mod queue;
pub(crate) mod signals;

use crate::error::{Error, Result};

/// Bytes that a peer has sent for the program to read, and the peer's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// Name of the sender, as it is now.
    pub peer: String,
    /// Bytes of the notification; perhaps none, perhaps with NUL among them.
    pub bytes: Vec<u8>,
}

/// State of a peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PeerState {
    /// An accept waits for the peer.
    Accepting,
    /// The peer is being reached, or has come in, and is not up yet.
    Connecting,
    /// The peer is up: transfers can be made.
    Up,
    /// This end has said goodbye, and waits for the peer's.
    Leaving,
    /// The peer was up and has said goodbye. Its name is free.
    Parted,
    /// The last attempt with the name has failed, or the peer has ended. The name is free.
    Failed(Error),
}

/// EventDescriptor that a session reports without being asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A round of a transfer that [reports](crate::Transfer::report_completions) its rounds has
    /// ended, or a post of such an operation.
    Completed(TransferCompletion),
    /// A peer has come up, has parted, or has failed.
    Peer {
        /// Name that the peer has, or had, in this session.
        name: String,
        /// [`PeerState::Up`], [`PeerState::Parted`] or [`PeerState::Failed`].
        state: PeerState,
    },
}

/// Completion of a transfer: a round has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferCompletion {
    /// Value that the program set to recognise the transfer.
    pub context: u64,
    /// Number of rounds that have ended since the last entry of this transfer was taken out. More
    /// than 1 if the program posted several rounds without taking entries.
    pub rounds: u64,
    /// Whether all of them ended well, or the first error.
    pub result: Result<()>,
}
