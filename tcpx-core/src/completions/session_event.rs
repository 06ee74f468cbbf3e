//! Something that has happened, as a program takes it out.

use super::peer_state::PeerState;
use super::transfer_completion::TransferCompletion;

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
