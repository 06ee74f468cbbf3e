//! One posted send or receive. Pure.

use super::matcher::Place;
use crate::transfer::plan::Member;
use crate::types::{Direction, OpKey, Span, TransferKey};

/// What a program posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewOperation {
    pub(crate) transfer: TransferKey,
    pub(crate) direction: Direction,
    pub(crate) tag: i32,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpState {
    /// A send waits for its receive, at this place of the matcher.
    SendWaits(Place),
    /// A receive was announced and waits for its send.
    Announced,
    /// Withdrawal of a receive was asked of the peer; a match may still win.
    Cancelling,
    /// So many of its chunks have not finished.
    Matched { chunks_left: u64 },
}

/// One posted send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) posted: NewOperation,
    pub(crate) state: OpState,
}

impl Operation {
    pub(crate) fn is_matched(&self) -> bool {
        matches!(self.state, OpState::Matched { .. })
    }

    /// The message that it is, once it is matched.
    pub(super) fn member(&self, op: OpKey) -> Member {
        let NewOperation { transfer, tag, span, bytes, .. } = self.posted;
        Member { op, transfer, span, bytes, tag }
    }
}
