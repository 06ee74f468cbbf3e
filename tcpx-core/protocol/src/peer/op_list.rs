//! Operations that stand one behind the other. Pure.
//!
//! The links are in the operations themselves, so that one is taken out of the middle without a
//! search. An operation stands in one list at most.

use slotmap::{Key, SlotMap};

use super::operation::{Links, PostedOperation};
use crate::types::OpKey;

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
