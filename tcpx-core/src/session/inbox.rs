//! What was posted while another thread had the session's lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, MemoryUnavailable, Result};
use crate::transfer::post::Post;
use crate::transfer::transfer_cell::TransferCell;
use crate::types::{Direction, TransferKey};

/// A batch of posts.
#[derive(Debug)]
pub(super) struct LatePosts {
    pub(super) transfer: TransferKey,
    pub(super) direction: Direction,
    pub(super) posts: Vec<Post>,
}

/// Batches, in the order in which they were posted. Whoever takes the session's lock takes them in
/// before it does anything else.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    waiting: Mutex<Vec<LatePosts>>,
    has_some: AtomicBool,
}

impl Inbox {
    /// Adds a batch.
    pub(super) fn push(
        &self,
        cell: &TransferCell,
        transfer: TransferKey,
        direction: Direction,
        posts: &[Post],
    ) -> Result<()> {
        let count = posts.len();
        let no_room = |_| Error::MemoryUnavailable(MemoryUnavailable::Operations { count });
        let mut copy = Vec::new();
        copy.try_reserve_exact(count).map_err(no_room)?;
        copy.extend_from_slice(posts);
        let mut waiting = self.waiting();
        waiting.try_reserve(1).map_err(no_room)?;
        cell.post_waits();
        waiting.push(LatePosts { transfer, direction, posts: copy });
        self.has_some.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<LatePosts> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting();
        self.has_some.store(false, Ordering::Release);
        std::mem::take(&mut *waiting)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<LatePosts>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
