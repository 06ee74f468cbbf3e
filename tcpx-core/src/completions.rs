//! What a program is told without asking every transfer: the queue of rounds that have ended, and
//! the descriptor by which it hears of that in an event loop of its own. What it takes out is here:
//! notifications, states of peers, events, and transfers of which a round has ended.
//!
//! - `queue`: the rounds that wait to be looked at.
//! - `notification_queue`: what peers have sent to be looked at.
//! - `peer_queue`: peers that have come up or ended, and by which connections. Pure.
//! - `news`: how a thread that waits in a call hears of something, and the descriptor.

pub(crate) mod news;
pub(crate) mod notification_queue;
pub(crate) mod peer_queue;
pub(crate) mod queue;

use crate::error::{Error, Result};

/// Bytes that a peer has sent to be looked at, and who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// The sender's name, as it is now.
    pub peer: String,
    /// Its bytes; perhaps none, perhaps with NUL among them.
    pub bytes: Vec<u8>,
}

/// What a peer is up to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PeerState {
    /// An accept waits for it.
    Accepting,
    /// It is being reached, or has come in, and is not up yet.
    Connecting,
    /// It is up: transfers can be made.
    Up,
    /// This end has said goodbye, and waits for the peer's.
    Leaving,
    /// It was up and has said goodbye. Its name is free.
    Parted,
    /// The last attempt with the name has failed, or the peer has ended. The name is free.
    Failed(Error),
}

/// Something that a session tells without being asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A round of a transfer has ended, or a post of an operation, that
    /// [reports](crate::Transfer::report_completions) it.
    Completed(TransferCompletion),
    /// A peer has come up, has parted, or has failed.
    Peer {
        /// The name that it has, or had, in this session.
        name: String,
        /// [`PeerState::Up`], [`PeerState::Parted`] or [`PeerState::Failed`].
        state: PeerState,
    },
}

/// A transfer of which a round has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferCompletion {
    /// What the program said that the transfer is to it.
    pub context: u64,
    /// How many rounds have ended since the last entry of this transfer was taken out. More than 1
    /// where rounds were posted without looking here.
    pub rounds: u64,
    /// Whether all of them ended well, or the first error.
    pub result: Result<()>,
}
