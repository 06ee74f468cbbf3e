//! Lists at the target: those of the peer, and the places of their ranges. Pure.
//!
//! Memory is made for what has come, never for what a peer announces. A list that cannot be opened
//! is known with the reason, which answers each request of it.

use std::collections::TryReserveError;
use std::sync::Arc;

use foldhash::HashMap;

use super::local_lists::ListLimits;
use crate::exports::capability::{ListedKey, ListedRange};
use crate::exports::exported_range::ExportKey;
use crate::exports::refusal::{Refusal, Refused};
use crate::exports::table::Exports;
use crate::frames::list_part::{ListHead, ListPart};
use crate::plans::pieces::{Piece, Pieces};
use crate::types::memory::OperationKind;
use crate::types::peer_budget::BudgetShare;
use crate::types::{MemoryType, RegistrationKey};

/// Cost of keeping a key of a list, and a range, in bytes.
const KEY_COST: u64 = 64;
const RANGE_COST: u64 = 32;

/// Places of the ranges of a list.
#[derive(Clone, Debug)]
pub(super) struct ResolvedList {
    pub(super) pieces: Arc<Pieces>,
    /// The exports that they are of, in order, each once.
    pub(super) uses: Arc<[ExportKey]>,
}

/// A list that is whole.
#[derive(Clone, Debug)]
pub(super) struct RemoteList {
    pub(super) kind: OperationKind,
    pub(super) bytes: u64,
    ranges: usize,
    pub(super) opened: Result<ResolvedList, Refused>,
    /// Requests under way that need it.
    active: usize,
    /// Bytes that it takes.
    kept: u64,
}

/// Breach of the rules of lists, which a well-behaved initiator never commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListFault {
    /// The list is known already.
    #[error("it is known already")]
    Known,
    /// Another one is not whole.
    #[error("another one is not whole")]
    NotWhole,
    /// A request uses it.
    #[error("a request of it is under way")]
    InUse,
    /// The list was not begun.
    #[error("it was not begun")]
    NotBegun,
    /// Its sizes are out of bounds.
    #[error("{keys} keys, {ranges} ranges and {bytes} bytes")]
    Sizes {
        /// Keys.
        keys: u32,
        /// Ranges.
        ranges: u32,
        /// Bytes.
        bytes: u64,
    },
    /// There are too many lists or ranges.
    #[error("more lists or ranges than there may be")]
    TooMany,
    /// More than announced, or not in order.
    #[error("more keys or ranges than announced, or not in order")]
    Order,
    /// A range is empty, or not of its key.
    #[error("a range of {bytes} bytes of key {key}")]
    Range {
        /// The key.
        key: u32,
        /// Bytes.
        bytes: u64,
    },
}

/// The list that is being received.
#[derive(Debug)]
struct PartialList {
    list: u32,
    /// Totals of the list.
    head: ListHead,
    keys_received: usize,
    ranges_received: usize,
    received_bytes: u64,
    /// Each key that came, opened, and its owner by its place in `owners`.
    opened: Vec<Result<ExportKey, Refusal>>,
    owner_of: Vec<u32>,
    owners: Vec<RegistrationKey>,
    memory: Option<MemoryType>,
    pieces: Vec<Piece>,
    /// Reason why it is refused. Nothing is kept of it then.
    refused: Option<Refused>,
    /// Bytes that it takes.
    kept: u64,
}

/// All lists of the peer.
#[derive(Debug)]
pub(in crate::peer) struct RemoteLists {
    limits: ListLimits,
    partial: Option<PartialList>,
    lists: HashMap<u32, RemoteList>,
    /// Ranges of all of them, as announced.
    ranges: usize,
    /// Share of the session's memory that they take.
    share: BudgetShare,
}

impl RemoteLists {
    pub(super) fn new(limits: ListLimits, share: BudgetShare) -> Self {
        Self { limits, partial: None, lists: HashMap::default(), ranges: 0, share }
    }

    /// Handles the beginning of a list, or more of it.
    pub(super) fn handle_part(
        &mut self,
        part: &ListPart,
        exports: &Exports,
    ) -> Result<(), ListFault> {
        let ListPart { list, head, keys, ranges } = part;
        if let Some(head) = *head {
            self.begin(*list, head)?;
        }
        if !keys.is_empty() {
            self.handle_keys(*list, keys, exports)?;
        }
        if !ranges.is_empty() {
            self.handle_ranges(*list, ranges, exports)?;
        }
        Ok(())
    }

    fn begin(&mut self, list: u32, head: ListHead) -> Result<(), ListFault> {
        let ListHead { kind, keys, ranges, bytes } = head;
        if self.partial.is_some() {
            return Err(ListFault::NotWhole);
        }
        if self.lists.contains_key(&list) {
            return Err(ListFault::Known);
        }
        let is_empty = (keys, ranges, bytes) == (0, 0, 0) && kind == OperationKind::Write;
        let is_possible = 1 <= keys && keys <= ranges && u64::from(ranges) <= bytes;
        if !is_empty && !is_possible || bytes > i64::MAX as u64 {
            return Err(ListFault::Sizes { keys, ranges, bytes });
        }
        let ranges = ranges as usize;
        if self.lists.len() >= self.limits.lists
            || ranges > self.limits.ranges
            || self.ranges + ranges > self.limits.ranges
        {
            return Err(ListFault::TooMany);
        }
        if is_empty {
            self.lists.insert(list, RemoteList::empty());
            return Ok(());
        }
        self.ranges += ranges;
        self.partial = Some(PartialList {
            list,
            head,
            keys_received: 0,
            ranges_received: 0,
            received_bytes: 0,
            opened: Vec::new(),
            owner_of: Vec::new(),
            owners: Vec::new(),
            memory: None,
            pieces: Vec::new(),
            refused: None,
            kept: 0,
        });
        Ok(())
    }

    /// Takes the next keys of the list.
    fn handle_keys(
        &mut self,
        list: u32,
        keys: &[ListedKey],
        exports: &Exports,
    ) -> Result<(), ListFault> {
        let partial = self.partial.as_mut().filter(|partial| partial.list == list);
        let partial = partial.ok_or(ListFault::NotBegun)?;
        partial.keys_received += keys.len();
        if partial.keys_received > partial.head.keys as usize || partial.ranges_received > 0 {
            return Err(ListFault::Order);
        }
        partial.keep(keys.len(), KEY_COST, &mut self.share);
        if partial.refused.is_none() && partial.open_keys(keys, exports).is_err() {
            partial.refuse(Refusal::NoMemory, 0);
        }
        partial.give_back_if_refused(&mut self.share);
        Ok(())
    }

    /// Takes the next ranges of the list. With the last one the list is whole.
    fn handle_ranges(
        &mut self,
        list: u32,
        ranges: &[ListedRange],
        exports: &Exports,
    ) -> Result<(), ListFault> {
        let partial = self.partial.as_mut().filter(|partial| partial.list == list);
        let partial = partial.ok_or(ListFault::NotBegun)?;
        let ListHead { keys, ranges: most, bytes, .. } = partial.head;
        let received = partial.ranges_received + ranges.len();
        if partial.keys_received < keys as usize || received > most as usize {
            return Err(ListFault::Order);
        }
        partial.keep(ranges.len(), RANGE_COST, &mut self.share);
        partial.add_ranges(ranges, exports)?;
        partial.give_back_if_refused(&mut self.share);
        if received < most as usize {
            return Ok(());
        }
        if partial.received_bytes != bytes {
            return Err(ListFault::Sizes { keys, ranges: most, bytes });
        }
        if let Some(partial) = self.partial.take() {
            self.lists.insert(list, partial.whole());
        }
        Ok(())
    }

    /// Forgets a list that the peer needs no more, and that no request under way needs.
    pub(super) fn handle_forget(
        &mut self,
        list: u32,
        exports: &mut Exports,
    ) -> Result<(), ListFault> {
        let known = self.lists.get(&list).ok_or(ListFault::NotBegun)?;
        if known.active > 0 {
            return Err(ListFault::InUse);
        }
        self.ranges -= known.ranges;
        self.share.give_back(known.kept);
        if let Ok(opened) = &known.opened {
            exports.forget_uses(&opened.uses);
        }
        self.lists.remove(&list);
        Ok(())
    }

    /// Begins a use of a list by a request, until [`end_use`](Self::end_use).
    pub(super) fn begin_use(&mut self, list: u32) {
        self.lists.entry(list).and_modify(|list| list.active += 1);
    }

    pub(super) fn end_use(&mut self, list: u32) {
        self.lists.entry(list).and_modify(|list| list.active -= 1);
    }

    /// Returns a list that is whole.
    pub(super) fn get(&self, list: u32) -> Option<&RemoteList> {
        self.lists.get(&list)
    }

    /// Lists that are whole, and the ranges of all.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.lists.len(), self.ranges)
    }
}

impl RemoteList {
    /// Makes a list that needs no key and opens nothing.
    fn empty() -> Self {
        let opened = ResolvedList { pieces: Arc::new(Pieces::none()), uses: Arc::default() };
        let kind = OperationKind::Write;
        Self { kind, bytes: 0, ranges: 0, opened: Ok(opened), active: 0, kept: 0 }
    }
}

impl PartialList {
    /// Takes room for `count` more keys or ranges. If there is none, the list is refused.
    fn keep(&mut self, count: usize, cost: u64, share: &mut BudgetShare) {
        if self.refused.is_some() {
            return;
        }
        let bytes = count as u64 * cost;
        match share.take(1, bytes, 1) {
            0 => self.refuse(Refusal::NoMemory, 0),
            _ => self.kept += bytes,
        }
    }

    fn give_back_if_refused(&mut self, share: &mut BudgetShare) {
        if self.refused.is_some() {
            share.give_back(std::mem::take(&mut self.kept));
        }
    }

    fn open_keys(&mut self, keys: &[ListedKey], exports: &Exports) -> Result<(), TryReserveError> {
        self.opened.try_reserve(keys.len())?;
        self.owner_of.try_reserve(keys.len())?;
        self.owners.try_reserve(keys.len())?;
        for ListedKey { export, secret } in keys {
            let opened = exports.open(*export, secret);
            let found = opened.ok().and_then(|key| exports.get(key));
            let owner = found.map(|export| export.range().span.registration);
            self.opened.push(opened);
            // Of a list with many keys, each key is most often of a registration of its own.
            let place = match (owner, self.owners.last()) {
                (Some(owner), Some(last)) if owner == *last => self.owners.len() - 1,
                (Some(owner), _) => {
                    self.owners.push(owner);
                    self.owners.len() - 1
                }
                (None, _) => 0,
            };
            self.owner_of.push(place as u32);
        }
        Ok(())
    }

    fn add_ranges(&mut self, ranges: &[ListedRange], exports: &Exports) -> Result<(), ListFault> {
        if self.refused.is_none() && self.pieces.try_reserve(ranges.len()).is_err() {
            self.refuse(Refusal::NoMemory, 0);
        }
        for range in ranges {
            let ListedRange { key, bytes, .. } = *range;
            if bytes == 0 || key >= self.head.keys {
                return Err(ListFault::Range { key, bytes });
            }
            let received = self
                .received_bytes
                .checked_add(bytes)
                .filter(|received| *received <= self.head.bytes);
            self.received_bytes = received.ok_or(ListFault::Range { key, bytes })?;
            if self.refused.is_none() {
                match self.place(range, exports) {
                    Ok(piece) => self.pieces.push(piece),
                    Err(why) => self.refuse(why, self.ranges_received),
                }
            }
            self.ranges_received += 1;
        }
        Ok(())
    }

    /// Returns the place of a range.
    fn place(&mut self, range: &ListedRange, exports: &Exports) -> Result<Piece, Refusal> {
        let ListedRange { key, offset, bytes } = *range;
        let opened = self.opened.get(key as usize).copied().unwrap_or(Err(Refusal::NoMemory))?;
        let export = exports.get(opened).ok_or(Refusal::Revoked)?;
        let address = export.address_of(offset, bytes, self.head.kind)?;
        let memory = export.range().span.memory;
        if *self.memory.get_or_insert(memory) != memory {
            return Err(Refusal::MixedMemory);
        }
        let owner = self.owner_of.get(key as usize).copied().unwrap_or_default();
        Ok(Piece { owner, address, bytes })
    }

    /// Refuses the list: nothing of it is needed any more.
    fn refuse(&mut self, why: Refusal, range: usize) {
        self.refused.get_or_insert(Refused { why, range: range as u32 });
        (self.opened, self.owner_of, self.owners) = (Vec::new(), Vec::new(), Vec::new());
        self.pieces = Vec::new();
    }

    fn whole(self) -> RemoteList {
        let Self { head, opened, owners, memory, pieces, refused, kept, .. } = self;
        let ListHead { kind, ranges, bytes, .. } = head;
        let opened = match refused {
            Some(refused) => Err(refused),
            None => open_list(memory, owners, pieces, &opened),
        };
        RemoteList { kind, bytes, ranges: ranges as usize, opened, active: 0, kept }
    }
}

fn open_list(
    memory: Option<MemoryType>,
    owners: Vec<RegistrationKey>,
    pieces: Vec<Piece>,
    opened: &[Result<ExportKey, Refusal>],
) -> Result<ResolvedList, Refused> {
    // Every range was opened, so none of this fails.
    let refused = Refused { why: Refusal::NoMemory, range: 0 };
    let pieces = memory.and_then(|memory| Pieces::new(memory, owners, pieces)).ok_or(refused)?;
    let mut uses: Vec<ExportKey> = opened.iter().filter_map(|key| key.ok()).collect();
    uses.sort_unstable();
    uses.dedup();
    Ok(ResolvedList { pieces: Arc::new(pieces), uses: uses.into() })
}

#[cfg(test)]
mod tests;
