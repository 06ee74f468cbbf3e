//! A list that an operation was prepared with: its pieces here, and its ranges at the peer.

use std::sync::Arc;

use crate::control::frame::one_sided::{ListedKey, ListedRange};
use crate::transfer::pieces::Pieces;
use crate::types::remote_access::OperationKind;
use crate::types::{MemoryType, PreparedKey};

/// What both halves of a list are. Each range has a piece of the same length, in this order.
#[derive(Debug)]
pub(crate) struct PreparedList {
    pub(crate) key: PreparedKey,
    pub(crate) kind: OperationKind,
    /// Where the bytes lie at this end.
    pub(crate) pieces: Arc<Pieces>,
    /// The keys that the ranges are of, each once.
    pub(crate) keys: Box<[ListedKey]>,
    pub(crate) ranges: Box<[ListedRange]>,
    /// The kind of memory that the ranges are in.
    pub(crate) remote_memory: MemoryType,
}
