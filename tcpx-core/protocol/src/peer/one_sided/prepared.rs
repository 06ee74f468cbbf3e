//! A list that an operation was prepared with: its pieces here, and its ranges at the peer.

use std::sync::Arc;

use crate::exports::listed::{ListedKey, ListedRange};
use crate::exports::refusal::AskedRange;
use crate::plans::pieces::Pieces;
use crate::types::remote_access::OperationKind;
use crate::types::{Direction, MemoryType, PreparedKey};

/// What both halves of a list are. Each range has a piece of the same length, in this order.
#[derive(Debug)]
pub struct PreparedList {
    /// Names the list at this end.
    pub key: PreparedKey,
    /// Whether it is a read or a write.
    pub kind: OperationKind,
    /// Where the bytes lie at this end.
    pub pieces: Arc<Pieces>,
    /// The keys that the ranges are of, each once.
    pub keys: Box<[ListedKey]>,
    /// How many bytes each of them exports, as it says itself.
    pub key_bytes: Box<[u64]>,
    /// The ranges at the other end.
    pub ranges: Box<[ListedRange]>,
    /// The kind of memory that the ranges are in.
    pub remote_memory: MemoryType,
}

impl PreparedList {
    /// A list without ranges, whose writes merely bring notifications.
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

    /// Which way its bytes go.
    pub fn direction(&self) -> Direction {
        self.kind.direction()
    }

    /// Whether a key that opens nothing now may open its range later.
    pub fn may_open_again(&self) -> bool {
        self.keys.iter().any(|key| key.export.is_stable())
    }

    /// What was asked for with one of its ranges, for the words of an error.
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
