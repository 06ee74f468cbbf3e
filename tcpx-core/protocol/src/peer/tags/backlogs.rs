//! Backlogs of transfers: the operations of each that have no counterpart, kept so that nothing
//! needs to be searched for. Pure.
//!
//! Messages that wait stand one behind the other in lists. The links are in the messages
//! themselves, so that one is taken out of the middle without a search. A message stands in one
//! list at most.

use slotmap::{Key, SecondaryMap, SlotMap};

use super::super::message::{Links, Message};
use crate::types::{OpKey, TransferKey};

/// The ends of one list; null when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct OpList {
    first: OpKey,
    last: OpKey,
}

impl OpList {
    pub(in super::super) fn is_empty(self) -> bool {
        self.first.is_null()
    }

    pub(in super::super) fn first(self) -> Option<OpKey> {
        (!self.first.is_null()).then_some(self.first)
    }

    pub(in super::super) fn last(self) -> Option<OpKey> {
        (!self.last.is_null()).then_some(self.last)
    }

    /// Puts an operation, which is in no list, behind the others. Returns its links; the operation
    /// before it learns of it by [`link_behind`].
    #[inline]
    pub(in super::super) fn push(&mut self, op: OpKey) -> Links {
        let before = std::mem::replace(&mut self.last, op);
        if before.is_null() {
            self.first = op;
        }
        Links { before, behind: OpKey::null() }
    }

    /// Takes an operation out that stands in this list, between `links`. It need not exist any
    /// more.
    #[inline]
    pub(in super::super) fn remove(
        &mut self,
        links: Links,
        operations: &mut SlotMap<OpKey, Message>,
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
pub(in super::super) fn link_behind(
    links: Links,
    op: OpKey,
    operations: &mut SlotMap<OpKey, Message>,
) {
    if let Some(neighbour) = operations.get_mut(links.before) {
        neighbour.links.behind = op;
    }
}

/// Operations of one transfer that have not ended.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Backlog {
    /// Operations that have no counterpart and are not withdrawn, oldest first.
    pub(in super::super) waiting: OpList,
    /// The newest of those that the program withdraws; null when there is none.
    withdrawn_to: OpKey,
    /// Whether it stands in the queue of transfers that have operations to be withdrawn.
    pub(in super::super) is_queued: bool,
    /// Its place among the transfers in which operations wait, while some do.
    place: usize,
    /// Operations that have no counterpart, withdrawn ones included.
    pub(in super::super) unmatched: usize,
}

impl Backlog {
    /// Returns the oldest operation that the program withdraws.
    pub(in super::super) fn first_withdrawn(&self) -> Option<OpKey> {
        self.waiting.first().filter(|_| !self.withdrawn_to.is_null())
    }

    /// Withdraws, for the program, everything that waits by now. Returns false when that is
    /// nothing.
    pub(in super::super) fn withdraw(&mut self) -> bool {
        let last = self.waiting.last();
        self.withdrawn_to = last.unwrap_or_default();
        last.is_some()
    }
}

/// The backlogs of a peer's transfers.
#[derive(Debug, Default)]
pub(in super::super) struct Backlogs {
    of: SecondaryMap<TransferKey, Backlog>,
    /// Transfers in which operations wait, in no order.
    waiting: Vec<TransferKey>,
}

impl Backlogs {
    pub(in super::super) fn get(&self, transfer: TransferKey) -> Option<&Backlog> {
        self.of.get(transfer)
    }

    pub(in super::super) fn get_mut(&mut self, transfer: TransferKey) -> Option<&mut Backlog> {
        self.of.get_mut(transfer)
    }

    /// Returns any transfer in which operations wait.
    pub(in super::super) fn any_waiting(&self) -> Option<&Backlog> {
        self.of.get(*self.waiting.last()?)
    }

    /// Adds an operation that begins to wait for its counterpart, behind those of its transfer.
    #[inline]
    pub(in super::super) fn begin_to_wait(&mut self, transfer: TransferKey, op: OpKey) -> Links {
        if let Some(backlog) = self.of.get_mut(transfer)
            && !backlog.waiting.is_empty()
        {
            backlog.unmatched += 1;
            return backlog.waiting.push(op);
        }
        self.begin_with(transfer, op)
    }

    /// Does the same for the first operation that waits.
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

    /// Takes out an operation that waited between `links`. `is_withdrawn`: the operation has no
    /// counterpart all the same.
    #[inline]
    pub(in super::super) fn end_to_wait(
        &mut self,
        (transfer, op): (TransferKey, OpKey),
        links: Links,
        is_withdrawn: bool,
        operations: &mut SlotMap<OpKey, Message>,
    ) {
        let Some(backlog) = self.of.get_mut(transfer) else { return };
        backlog.unmatched -= usize::from(!is_withdrawn);
        backlog.waiting.remove(links, operations);
        if backlog.withdrawn_to == op {
            backlog.withdrawn_to = links.before;
        }
        if backlog.waiting.is_empty() {
            let place = backlog.place;
            self.remove_idle(place);
        }
    }

    /// Notes that nothing waits any more in the transfer at this place.
    fn remove_idle(&mut self, place: usize) {
        self.waiting.swap_remove(place);
        if let Some(moved) = self.waiting.get(place)
            && let Some(backlog) = self.of.get_mut(*moved)
        {
            backlog.place = place;
        }
    }

    /// Notes that an operation that was withdrawn has found its counterpart, or ended without one.
    pub(in super::super) fn withdrawn_ended(&mut self, transfer: TransferKey) {
        if let Some(backlog) = self.of.get_mut(transfer) {
            backlog.unmatched -= 1;
        }
    }
}
