//! Queue of posts that were handed in while another thread had the engine, and of deferred calls
//! of threads that may not wait for the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use tcpx_protocol::peer::message::NewOperation;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Direction, PreparedKey, TransferKey};

use crate::peer::resources::{MAX_QUEUED_POSTS, PostGate};
use crate::plugin::registrations::checked_use::OpenRegistration;
use crate::reactor::poller::Poller;
use crate::transfer::Post;
use crate::transfer::transfer_cell::TransferCell;

/// Largest number of operations that one call hands in. For more, a wait is short beside the work.
const MOST_OF_A_CALL: usize = 64;

/// Transfer, for callers without the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostTarget<'a> {
    pub(crate) key: TransferKey,
    pub(crate) cell: &'a TransferCell,
    /// Gate of the transfer's peer.
    pub(crate) gate: &'a PostGate,
}

/// Queue of posts. Its lock is held for a moment only, and never during a wait for the engine's.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    contents: Mutex<InboxQueues>,
    /// Number of queued operations.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct InboxQueues {
    /// Memory that may be posted on.
    memory: HashMap<MemoryId, OpenRegistration>,
    operations: Vec<NewOperation>,
}

impl Inbox {
    /// Takes posts in, all or none. Returns whether it has: if not, the caller must post with the
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
        let InboxQueues { memory, operations } = &mut *self.contents.lock();
        let before = operations.len();
        if before + posts.len() > MAX_QUEUED_POSTS || operations.try_reserve(posts.len()).is_err() {
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

    /// Allows posts on this memory.
    pub(super) fn offer(&self, id: MemoryId, usable: OpenRegistration) {
        self.contents.lock().memory.insert(id, usable);
    }

    /// Forbids posts on this memory. Returns whether it has: if not, the caller must first take
    /// what was handed in.
    pub(super) fn withhold(&self, id: MemoryId) -> bool {
        let mut contents = self.contents.lock();
        let is_empty = contents.operations.is_empty();
        if is_empty {
            contents.memory.remove(&id);
        }
        is_empty
    }
}

/// Deferred call.
#[derive(Debug)]
pub(crate) enum DeferredCall {
    /// Post an operation. Its listener receives its end, also if the operation cannot be posted.
    Post(DeferredPost),
    /// Give up the posts to a transfer.
    Cancel(TransferKey),
}

/// Operation that could not be posted before now.
#[derive(Debug)]
pub(crate) struct DeferredPost {
    pub(crate) prepared: PreparedKey,
    pub(crate) transfer: TransferKey,
    pub(crate) notification: Arc<[u8]>,
    pub(crate) timeout: Option<Duration>,
}

/// Deferred calls of one engine. The lock is held for a moment only.
#[derive(Debug)]
pub(crate) struct DeferredCalls {
    waiting: Mutex<Vec<DeferredCall>>,
    /// Whether there are any. A thread that locks the engine mostly checks this without the lock.
    has_some: AtomicBool,
    poller: Arc<Poller>,
}

impl DeferredCalls {
    /// Makes an empty queue. The thread that waits on this poller runs the deferred calls.
    pub(super) fn new(poller: Arc<Poller>) -> Self {
        Self { waiting: Mutex::default(), has_some: AtomicBool::new(false), poller }
    }

    /// Queues a deferred call.
    pub(crate) fn ask(&self, deferred_call: DeferredCall) {
        {
            let mut waiting = self.waiting.lock();
            waiting.push(deferred_call);
            self.has_some.store(true, Ordering::Release);
        }
        self.poller.wake();
    }

    /// Takes out all deferred calls, in order.
    pub(super) fn take(&self) -> Vec<DeferredCall> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        self.has_some.store(false, Ordering::Relaxed);
        std::mem::take(&mut *waiting)
    }
}
