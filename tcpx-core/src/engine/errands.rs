//! What an engine is asked to do by those who may not wait for its lock: the end of a part of an
//! operation, which another session's engine tells, is heard while that one is locked.
//!
//! Whoever has the engine next does what lies here before anything else. So what was asked for
//! before a part was posted again concerns the post before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tcpx_protocol::types::{PreparedKey, TransferKey};

use crate::reactor::poller::Poller;

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
