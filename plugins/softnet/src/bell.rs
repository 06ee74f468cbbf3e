//! Signal from helper threads to the thread that waits for a comm: chunks have finished.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use crate::sync::{AtomicBool, OnceLock, Waker};

/// Bell of one comm. It makes a system call only when a thread waits for it, and one call for all
/// chunks that finish between two harvests.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Present after the first call that asked for the comm's descriptors.
    event: OnceLock<Waker>,
    /// Whether it was rung since the last harvest began.
    is_rung: AtomicBool,
}

impl Bell {
    pub(crate) const fn new() -> Self {
        Self { event: OnceLock::new(), is_rung: AtomicBool::new(false) }
    }

    /// Rings for a chunk that has finished and lies where the next harvest finds it.
    pub(crate) fn ring(&self) {
        // Either this sees what `silence` stored, and signals; or `silence` sees this, and with it
        // the chunk.
        if !self.is_rung.swap(true, Ordering::AcqRel)
            && let Some(event) = self.event.get()
        {
            event.notify();
        }
    }

    /// Marks the beginning of a harvest.
    pub(crate) fn silence(&self) {
        self.is_rung.swap(false, Ordering::AcqRel);
    }

    /// Returns the descriptor to watch for rings. Its count is never read: for a watcher of edges
    /// every ring is one.
    pub(crate) fn watch(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(event) = self.event.get() {
            return Ok(event.as_fd());
        }
        let made = Waker::new()?;
        let event = self.event.get_or_init(|| made);
        // For earlier rings.
        event.notify();
        Ok(event.as_fd())
    }

    /// Returns whether a caller watches the descriptor.
    pub(crate) fn is_watched(&self) -> bool {
        self.event.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sync::wait;
    use tcpx_comm::poll::Interest;

    #[test]
    fn it_signals_once_for_each_harvest_also_to_late_watchers() {
        let bell = Bell::new();
        bell.ring();
        assert!(!bell.is_watched());
        let event = bell.watch().expect("eventfd").try_clone_to_owned().expect("a copy");
        let is_heard = || {
            let ready = wait(&[(event.as_fd(), Interest::Read)], Some(Duration::ZERO));
            bell.event.get().expect("it is watched").clear();
            ready.expect("poll")[0]
        };
        assert!(is_heard(), "it was rung before");
        bell.ring();
        assert!(!is_heard(), "no harvest has begun since");
        bell.silence();
        assert!(!is_heard());
        bell.ring();
        bell.ring();
        assert!(is_heard());
    }
}
