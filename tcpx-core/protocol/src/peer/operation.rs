//! One posted send or receive. Pure.

use super::tag_queues::Place;
use crate::plans::plan::Member;
use crate::types::{Direction, OpKey, Span, TransferKey};

/// What a program posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOperation {
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// Which way it moves bytes.
    pub direction: Direction,
    /// Its tag.
    pub tag: i64,
    /// Where its bytes lie.
    pub span: Span,
    /// Its bytes.
    pub bytes: u64,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpState {
    /// A send waits for its receive.
    SendWaits,
    /// A receive waits to be announced.
    Unannounced,
    /// A receive was announced and waits for its send.
    Announced,
    /// An operation on memory of the peer, while no memory of this end is in use for it.
    Asked,
    /// Withdrawal of a receive was asked of the peer; a match may still win.
    Cancelling(Withdrawal),
    /// So many of its bytes were not sent, or have not arrived. Of a receive, so many are dealt.
    Matched {
        /// Bytes that were not sent, or have not arrived.
        bytes_left: u64,
        /// Bytes of a receive that are dealt.
        bytes_dealt: u64,
    },
}

/// Why an operation ends without a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The program has cancelled it.
    Cancelled,
    /// The program has left the peer.
    Left,
    /// The peer has left first.
    PeerLeft,
}

/// Neighbours in a list of operations; null at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) before: OpKey,
    pub(super) behind: OpKey,
}

/// One posted send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedOperation {
    /// What was posted.
    pub posted: NewOperation,
    /// How far it is.
    pub state: OpState,
    /// Those of a transfer that have no counterpart stand in one list, receives of the peer that
    /// are being withdrawn in another.
    pub(super) links: Links,
    /// Its place among those of its tag, while it waits for its counterpart.
    pub(super) place: Place,
}

impl PostedOperation {
    /// Returns whether it has found its counterpart.
    pub fn is_matched(&self) -> bool {
        matches!(self.state, OpState::Matched { .. })
    }

    /// Whether it is a receive that a match may still come for.
    pub(super) fn is_waiting_receive(&self) -> bool {
        matches!(self.state, OpState::Announced | OpState::Cancelling(_))
    }

    /// The message that it is, once it is matched.
    pub(super) fn member(&self, op: OpKey) -> Member {
        let NewOperation { transfer, tag, span, bytes, .. } = self.posted;
        Member { op, transfer, span, bytes, tag }
    }
}
