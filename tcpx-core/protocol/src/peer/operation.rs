//! One posted send or receive. Pure.
//!
//! Operations that stand one behind the other. Pure.
//!
//! The links are in the operations themselves, so that one is taken out of the middle without a
//! search. An operation stands in one list at most.
//!
//! What of each transfer has not ended, kept so that nothing needs to be searched for. Pure.

use slotmap::{Key, SecondaryMap, SlotMap};

use super::tags::tag_queues::Place;
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

/// The ends of one list; null when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpList {
    first: OpKey,
    last: OpKey,
}

impl OpList {
    pub(super) fn is_empty(self) -> bool {
        self.first.is_null()
    }

    pub(super) fn first(self) -> Option<OpKey> {
        (!self.first.is_null()).then_some(self.first)
    }

    pub(super) fn last(self) -> Option<OpKey> {
        (!self.last.is_null()).then_some(self.last)
    }

    /// Puts an operation, which is in no list, behind the others. Returns its links; the operation
    /// before it learns of it by [`link_behind`].
    #[inline]
    pub(super) fn push(&mut self, op: OpKey) -> Links {
        let before = std::mem::replace(&mut self.last, op);
        if before.is_null() {
            self.first = op;
        }
        Links { before, behind: OpKey::null() }
    }

    /// Takes an operation out that stands in this list, between `links`. It need not exist any
    /// more.
    #[inline]
    pub(super) fn remove(
        &mut self,
        links: Links,
        operations: &mut SlotMap<OpKey, PostedOperation>,
    ) {
        let Links { before, behind } = links;
        match operations.get_mut(before) {
            Some(neighbour) => neighbour.links.behind = behind,
            None => self.first = behind,
        }
        match operations.get_mut(behind) {
            Some(neighbour) => neighbour.links.before = before,
            None => self.last = before,
        }
    }
}

/// Tells the operation before `op`, if there is one, what stands behind it.
#[inline]
pub(super) fn link_behind(
    links: Links,
    op: OpKey,
    operations: &mut SlotMap<OpKey, PostedOperation>,
) {
    if let Some(neighbour) = operations.get_mut(links.before) {
        neighbour.links.behind = op;
    }
}

/// What of one transfer has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Operations that have no counterpart and that nobody has withdrawn, oldest first.
    pub(super) waiting: OpList,
    /// The newest of those that the program withdraws; null when there is none.
    withdrawn_to: OpKey,
    /// Whether it stands in the queue of transfers of which something is to be withdrawn.
    pub(super) is_queued: bool,
    /// Its place among the transfers in which operations wait, while some do.
    place: usize,
    /// Operations that have no counterpart, withdrawn ones included.
    pub(super) unmatched: usize,
}

impl Backlog {
    /// The oldest operation that the program withdraws.
    pub(super) fn first_withdrawn(&self) -> Option<OpKey> {
        self.waiting.first().filter(|_| !self.withdrawn_to.is_null())
    }

    /// The program withdraws everything that waits by now. False when that is nothing.
    pub(super) fn withdraw(&mut self) -> bool {
        let last = self.waiting.last();
        self.withdrawn_to = last.unwrap_or_default();
        last.is_some()
    }
}

/// The backlogs of a peer's transfers.
#[derive(Debug, Default)]
pub(super) struct Backlogs {
    of: SecondaryMap<TransferKey, Backlog>,
    /// Transfers in which operations wait, in no order.
    waiting: Vec<TransferKey>,
}

impl Backlogs {
    pub(super) fn get(&self, transfer: TransferKey) -> Option<&Backlog> {
        self.of.get(transfer)
    }

    pub(super) fn get_mut(&mut self, transfer: TransferKey) -> Option<&mut Backlog> {
        self.of.get_mut(transfer)
    }

    /// Any transfer in which operations wait.
    pub(super) fn any_waiting(&self) -> Option<&Backlog> {
        self.of.get(*self.waiting.last()?)
    }

    /// An operation begins to wait for its counterpart, behind those of its transfer.
    #[inline]
    pub(super) fn begin_to_wait(&mut self, transfer: TransferKey, op: OpKey) -> Links {
        if let Some(backlog) = self.of.get_mut(transfer)
            && !backlog.waiting.is_empty()
        {
            backlog.unmatched += 1;
            return backlog.waiting.push(op);
        }
        self.begin_with(transfer, op)
    }

    /// The same for the first one that waits.
    fn begin_with(&mut self, transfer: TransferKey, op: OpKey) -> Links {
        if !self.of.contains_key(transfer) {
            self.of.insert(transfer, Backlog::default());
        }
        let Some(backlog) = self.of.get_mut(transfer) else { return Links::default() };
        backlog.place = self.waiting.len();
        self.waiting.push(transfer);
        backlog.unmatched += 1;
        backlog.waiting.push(op)
    }

    /// An operation that waited, and stood between `links`, does so no more. `is_withdrawn`: it has
    /// no counterpart all the same.
    #[inline]
    pub(super) fn end_to_wait(
        &mut self,
        (transfer, op): (TransferKey, OpKey),
        links: Links,
        is_withdrawn: bool,
        operations: &mut SlotMap<OpKey, PostedOperation>,
    ) {
        let Some(backlog) = self.of.get_mut(transfer) else { return };
        backlog.unmatched -= usize::from(!is_withdrawn);
        backlog.waiting.remove(links, operations);
        if backlog.withdrawn_to == op {
            backlog.withdrawn_to = links.before;
        }
        if backlog.waiting.is_empty() {
            let place = backlog.place;
            self.nothing_waits_at(place);
        }
    }

    /// In the transfer at this place nothing waits any more.
    fn nothing_waits_at(&mut self, place: usize) {
        self.waiting.swap_remove(place);
        if let Some(moved) = self.waiting.get(place)
            && let Some(backlog) = self.of.get_mut(*moved)
        {
            backlog.place = place;
        }
    }

    /// An operation that was withdrawn has found its counterpart, or ended without one.
    pub(super) fn withdrawn_ended(&mut self, transfer: TransferKey) {
        if let Some(backlog) = self.of.get_mut(transfer) {
            backlog.unmatched -= 1;
        }
    }
}
