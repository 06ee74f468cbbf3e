//! Posts that were handed in while another thread had the engine: nobody waits for its lock to post
//! a few operations.
//!
//! What is handed in is checked as a post is, against what this knows of the session's memory and
//! of the peer. So it is taken, or the caller has to post it with the engine, which says what is
//! wrong. Whoever has the engine next posts what lies here before it does anything else. So nothing
//! that came later overtakes it, and memory that was used here is in use for all who ask.
//!
//! A peer that ends between the two ends it with its error, as it ends all that was posted to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;
use tcpx_protocol::peer::operation::NewOperation;
use tcpx_protocol::types::memory_id::MemoryId;
use tcpx_protocol::types::{Direction, TransferKey};

use crate::peer::post_gate::{MOST_HANDED_IN, PostGate};
use crate::plugin::registrations::Usable;
use crate::transfer::post::Post;
use crate::transfer::transfer_cell::TransferCell;

/// Most operations that one call hands in. For more, a wait is short beside the work.
const MOST_OF_A_CALL: usize = 64;

/// A transfer, for those who have no engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostTarget<'a> {
    pub(crate) key: TransferKey,
    pub(crate) cell: &'a TransferCell,
    /// Its peer's.
    pub(crate) gate: &'a PostGate,
}

/// Its lock is held for a moment only, and never while the engine's is waited for.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    contents: Mutex<Contents>,
    /// How many operations lie in it.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Contents {
    /// Memory that may be posted on.
    memory: HashMap<MemoryId, Usable>,
    operations: Vec<NewOperation>,
}

impl Inbox {
    /// Takes posts in, all or none. Returns whether it has: if not, they are to be posted with the
    /// engine.
    pub(crate) fn hand_in(
        &self,
        target: PostTarget<'_>,
        direction: Direction,
        posts: &[Post],
    ) -> bool {
        let PostTarget { key, cell, gate } = target;
        let is_open = match direction {
            Direction::Send => gate.takes_sends(),
            Direction::Receive => gate.takes_receives(),
        };
        if !is_open || posts.len() > MOST_OF_A_CALL {
            return false;
        }
        let Contents { memory, operations } = &mut *self.contents.lock();
        let before = operations.len();
        if before + posts.len() > MOST_HANDED_IN || operations.try_reserve(posts.len()).is_err() {
            return false;
        }
        for Post { memory: id, offset, bytes, tag } in posts.iter().copied() {
            let span = memory.get(&id).map(|usable| usable.span(offset, bytes, direction.access()));
            let Some(Ok(span)) = span else {
                operations.truncate(before);
                return false;
            };
            operations.push(NewOperation { transfer: key, direction, tag, span, bytes });
        }
        cell.posted(direction, posts.len() as u64);
        self.count.store(operations.len(), Ordering::Release);
        true
    }

    /// Takes out everything that was handed in, in order, and leaves the empty list in its place.
    /// Returns whether there was anything.
    pub(super) fn take(&self, into: &mut Vec<NewOperation>) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut contents = self.contents.lock();
        std::mem::swap(&mut contents.operations, into);
        self.count.store(0, Ordering::Relaxed);
        true
    }

    /// Memory may be posted on.
    pub(super) fn offer(&self, id: MemoryId, usable: Usable) {
        self.contents.lock().memory.insert(id, usable);
    }

    /// Memory may not be posted on any more. Returns whether that is so: if not, what was handed in
    /// is to be taken out before.
    pub(super) fn withhold(&self, id: MemoryId) -> bool {
        let mut contents = self.contents.lock();
        let is_empty = contents.operations.is_empty();
        if is_empty {
            contents.memory.remove(&id);
        }
        is_empty
    }
}
