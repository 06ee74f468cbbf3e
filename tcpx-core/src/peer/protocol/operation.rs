//! One posted send or receive. Pure.

use super::tag_queues::Place;
use crate::transfer::plan::Member;
use crate::types::{Direction, OpKey, Span, TransferKey};

/// What a program posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewOperation {
    pub(crate) transfer: TransferKey,
    pub(crate) direction: Direction,
    pub(crate) tag: i64,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpState {
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
    Matched { bytes_left: u64, bytes_dealt: u64 },
}

/// Why an operation ends without a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawal {
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
pub(crate) struct PostedOperation {
    pub(crate) posted: NewOperation,
    pub(crate) state: OpState,
    /// Those of a transfer that have no counterpart stand in one list, receives of the peer that
    /// are being withdrawn in another.
    pub(super) links: Links,
    /// Its place among those of its tag, while it waits for its counterpart.
    pub(super) place: Place,
}

impl PostedOperation {
    pub(crate) fn is_matched(&self) -> bool {
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
