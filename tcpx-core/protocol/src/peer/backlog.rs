//! What of each transfer has not ended, kept so that nothing needs to be searched for. Pure.

use slotmap::{Key, SecondaryMap, SlotMap};

use super::op_list::OpList;
use super::operation::{Links, PostedOperation};
use crate::types::{OpKey, TransferKey};

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
