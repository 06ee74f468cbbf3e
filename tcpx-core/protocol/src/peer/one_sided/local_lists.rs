//! Lists of the initiator: those that the peer knows, and those that it is learning. Pure.
//!
//! This end tells a list once, before the first request of it, a frame at a time. The peer keeps
//! the list until this end says that it may be forgotten. This end says so when the operation of
//! the list goes, or to make room for others.
//!
//! A list that an operation was prepared with: its pieces here, and its ranges at the peer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use crate::exports::capability::{ListedKey, ListedRange};
use crate::exports::refusal::AskedRange;
use crate::frames::frame::Frame;
use crate::frames::list_part::{KEY_BYTES, LIST_BYTES, ListHead, ListPart, RANGE_BYTES};
use crate::plans::pieces::Pieces;
use crate::types::memory::OperationKind;
use crate::types::{Direction, MemoryType, OpKey, PreparedKey};

/// Limits of what a peer has to know of lists at a time.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Most lists.
    pub lists: usize,
    /// Most ranges of all lists together.
    pub ranges: usize,
}

impl ListLimits {
    /// Limits that both ends keep to, but for tests.
    pub const AGREED: Self = Self { lists: 1 << 16, ranges: 1 << 22 };
}

/// A list that the peer knows, or is learning.
#[derive(Debug)]
struct KnownList {
    list: Arc<PreparedList>,
    number: u32,
    progress: ListProgress,
    /// Number of requests of the list that the peer has not answered, and of those that wait until
    /// the peer knows it.
    active: usize,
    /// Time of the last use, counted in uses.
    used_at: u64,
    /// Whether its operation is gone.
    is_dropped: bool,
}

#[derive(Debug)]
enum ListProgress {
    /// This many keys and ranges were sent; these requests wait.
    Sending {
        has_begun: bool,
        keys: usize,
        ranges: usize,
        waiting: Vec<OpKey>,
    },
    Known,
}

/// Result of a request's wish to use a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListUse {
    /// The peer knows its list by this number.
    Known(u32),
    /// The request is handed out when the peer knows the list.
    Later,
    /// There is no room for the list: to be asked again when a list is idle.
    NoRoom,
}

/// Next thing to say.
#[derive(Debug)]
pub(super) struct ListFrame {
    pub(super) frame: Frame,
    /// Requests whose list is whole with it.
    pub(super) ready: Vec<OpKey>,
}

/// All lists of one end.
#[derive(Debug)]
pub(in crate::peer) struct LocalLists {
    limits: ListLimits,
    known: HashMap<PreparedKey, KnownList>,
    numbers: HashSet<u32>,
    next_number: u32,
    /// Ranges of all of them.
    ranges: usize,
    /// Lists that nothing waits for, by the time of their last use.
    idle: BTreeMap<u64, PreparedKey>,
    uses: u64,
    /// Lists that are being sent, oldest first.
    queue: VecDeque<PreparedKey>,
    /// The peer may forget these.
    forgotten: VecDeque<u32>,
}

impl LocalLists {
    pub(super) fn new(limits: ListLimits) -> Self {
        Self {
            limits,
            known: HashMap::default(),
            numbers: HashSet::default(),
            next_number: 0,
            ranges: 0,
            idle: BTreeMap::new(),
            uses: 0,
            queue: VecDeque::new(),
            forgotten: VecDeque::new(),
        }
    }

    /// Begins a use of a list by a request. Unless there is no room, the request counts as active
    /// until [`end_use`](Self::end_use).
    pub(super) fn begin_use(&mut self, list: &Arc<PreparedList>, op: OpKey) -> ListUse {
        if !self.known.contains_key(&list.key) && !self.add(list) {
            return ListUse::NoRoom;
        }
        let Some(known) = self.known.get_mut(&list.key) else { return ListUse::NoRoom };
        if known.active == 0 {
            self.idle.remove(&known.used_at);
        }
        known.active += 1;
        match &mut known.progress {
            ListProgress::Known => ListUse::Known(known.number),
            ListProgress::Sending { waiting, .. } => {
                waiting.push(op);
                ListUse::Later
            }
        }
    }

    /// Makes a list known, if there is room or can be made.
    fn add(&mut self, list: &Arc<PreparedList>) -> bool {
        while self.known.len() >= self.limits.lists
            || self.ranges + list.ranges.len() > self.limits.ranges
        {
            let Some((_, oldest)) = self.idle.pop_first() else { return false };
            self.forget(oldest);
        }
        while !self.numbers.insert(self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.ranges += list.ranges.len();
        let progress =
            ListProgress::Sending { has_begun: false, keys: 0, ranges: 0, waiting: Vec::new() };
        let list = Arc::clone(list);
        let key = list.key;
        let (active, used_at, is_dropped) = (0, 0, false);
        self.known.insert(key, KnownList { list, number, progress, active, used_at, is_dropped });
        self.queue.push_back(key);
        true
    }

    /// Returns the number of a list that was sent.
    pub(super) fn number(&self, key: PreparedKey) -> Option<u32> {
        let known = self.known.get(&key)?;
        matches!(known.progress, ListProgress::Known).then_some(known.number)
    }

    /// Ends a use: a request of the list is answered, or will never be sent.
    pub(super) fn end_use(&mut self, key: PreparedKey) {
        let Some(known) = self.known.get_mut(&key) else { return };
        known.active = known.active.saturating_sub(1);
        if known.active > 0 {
            return;
        }
        self.uses += 1;
        known.used_at = self.uses;
        // This end tells the list to its end all the same: the peer has begun it.
        if matches!(known.progress, ListProgress::Known) {
            self.rest(key);
        }
    }

    /// Notes that nothing waits for a list that the peer knows.
    fn rest(&mut self, key: PreparedKey) {
        let Some(known) = self.known.get(&key) else { return };
        if known.is_dropped {
            return self.forget(key);
        }
        self.idle.insert(known.used_at, key);
    }

    /// Drops a list whose operation is gone, or which must be sent again: the peer may forget the
    /// list when nothing waits for it.
    pub(super) fn drop_list(&mut self, key: PreparedKey) {
        let Some(known) = self.known.get_mut(&key) else { return };
        known.is_dropped = true;
        if known.active == 0 && matches!(known.progress, ListProgress::Known) {
            self.idle.remove(&known.used_at);
            self.forget(key);
        }
    }

    fn forget(&mut self, key: PreparedKey) {
        if let Some(known) = self.known.remove(&key) {
            self.ranges -= known.list.ranges.len();
            self.numbers.remove(&known.number);
            self.forgotten.push_back(known.number);
        }
    }

    /// Returns whether there is something to say.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        !self.queue.is_empty() || !self.forgotten.is_empty()
    }

    /// Returns the next frame about lists.
    pub(super) fn next(&mut self) -> Option<ListFrame> {
        if let Some(list) = self.forgotten.pop_front() {
            return Some(ListFrame { frame: Frame::Forget { list }, ready: Vec::new() });
        }
        let key = *self.queue.front()?;
        let known = self.known.get_mut(&key)?;
        let (number, list) = (known.number, Arc::clone(&known.list));
        let ListProgress::Sending { has_begun, keys, ranges, waiting } = &mut known.progress else {
            self.queue.pop_front();
            return None;
        };
        let head = (!std::mem::replace(has_begun, true)).then(|| list.head());
        let keys_end = list.keys.len().min(*keys + LIST_BYTES / KEY_BYTES);
        let room = LIST_BYTES - KEY_BYTES * (keys_end - *keys);
        let is_keyed = keys_end == list.keys.len();
        let count = if is_keyed { room / RANGE_BYTES } else { 0 };
        let ranges_end = list.ranges.len().min(*ranges + count);
        let frame = Frame::List(Box::new(ListPart {
            list: number,
            head,
            keys: list.keys[*keys..keys_end].into(),
            ranges: list.ranges[*ranges..ranges_end].into(),
        }));
        (*keys, *ranges) = (keys_end, ranges_end);
        if !is_keyed || ranges_end < list.ranges.len() {
            return Some(ListFrame { frame, ready: Vec::new() });
        }
        let ready = std::mem::take(waiting);
        known.progress = ListProgress::Known;
        self.queue.pop_front();
        if known.active == 0 {
            self.rest(key);
        }
        Some(ListFrame { frame, ready })
    }

    /// Lists that the peer knows, or is learning, and their ranges.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.known.len(), self.ranges)
    }
}

/// State that both halves of a list share. Each range has a piece of the same length, in this
/// order.
#[derive(Debug)]
pub struct PreparedList {
    /// Names the list at this end.
    pub key: PreparedKey,
    /// Whether it is a read or a write.
    pub kind: OperationKind,
    /// Place of the bytes at this end.
    pub pieces: Arc<Pieces>,
    /// The keys that the ranges are of, each once.
    pub keys: Box<[ListedKey]>,
    /// Number of bytes that each key exports, as the key itself says.
    pub key_bytes: Box<[u64]>,
    /// The ranges at the other end.
    pub ranges: Box<[ListedRange]>,
    /// The kind of memory that the ranges are in.
    pub remote_memory: MemoryType,
}

impl PreparedList {
    /// Returns a list without ranges, whose writes merely bring notifications.
    pub fn empty(key: PreparedKey) -> Self {
        Self {
            key,
            kind: OperationKind::Write,
            pieces: Arc::new(Pieces::none()),
            keys: Box::default(),
            key_bytes: Box::default(),
            ranges: Box::default(),
            remote_memory: MemoryType::Host,
        }
    }

    /// Returns the totals of the list.
    fn head(&self) -> ListHead {
        ListHead {
            kind: self.kind,
            keys: self.keys.len() as u32,
            ranges: self.ranges.len() as u32,
            bytes: self.pieces.bytes,
        }
    }

    /// Returns the direction of its bytes.
    pub fn direction(&self) -> Direction {
        self.kind.direction()
    }

    /// Returns whether a key that opens nothing now may open its range later.
    pub fn may_open_again(&self) -> bool {
        self.keys.iter().any(|key| key.export.is_stable())
    }

    /// Returns the request for one of its ranges, for the words of an error.
    pub fn asked_range(&self, index: u32) -> AskedRange {
        let index = index as usize;
        let range = self.ranges.get(index);
        let exported = range.and_then(|range| self.key_bytes.get(range.key as usize));
        AskedRange {
            index,
            offset: range.map_or(0, |range| range.offset),
            bytes: range.map_or(0, |range| range.bytes),
            exported_bytes: exported.copied().unwrap_or_default(),
            wanted: self.kind,
        }
    }
}

#[cfg(test)]
mod tests;
