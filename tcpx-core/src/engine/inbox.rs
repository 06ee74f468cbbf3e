//! What was handed in while another thread had the engine: posts, and errands of those who may not
//! wait for the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use tcpx_protocol::peer::message::NewOperation;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Direction, PreparedKey, TransferKey};

use crate::peer::commons::{MOST_HANDED_IN, PostGate};
use crate::plugin::registrations::Usable;
use crate::reactor::poller::Poller;
use crate::transfer::Post;
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

/// Something to do.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Post an operation. Its end is told to its listener, also if it cannot be posted.
    Post(LatePost),
    /// Give up what was posted to a transfer.
    Cancel(TransferKey),
}

/// An operation that could not be posted before now.
#[derive(Debug)]
pub(crate) struct LatePost {
    pub(crate) prepared: PreparedKey,
    pub(crate) transfer: TransferKey,
    pub(crate) notification: Arc<[u8]>,
    pub(crate) timeout: Option<Duration>,
}

/// Those of one engine. Its lock is held for a moment only.
#[derive(Debug)]
pub(crate) struct Errands {
    waiting: Mutex<Vec<Errand>>,
    /// Whether there are any. So whoever locks the engine mostly asks without the lock.
    has_some: AtomicBool,
    poller: Arc<Poller>,
}

impl Errands {
    /// None yet. Whoever waits on this poller does them.
    pub(super) fn new(poller: Arc<Poller>) -> Self {
        Self { waiting: Mutex::default(), has_some: AtomicBool::new(false), poller }
    }

    /// Asks for something.
    pub(crate) fn ask(&self, errand: Errand) {
        {
            let mut waiting = self.waiting.lock();
            waiting.push(errand);
            self.has_some.store(true, Ordering::Release);
        }
        self.poller.wake();
    }

    /// Takes out all that was asked for, in order.
    pub(super) fn take(&self) -> Vec<Errand> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        self.has_some.store(false, Ordering::Relaxed);
        std::mem::take(&mut *waiting)
    }
}
