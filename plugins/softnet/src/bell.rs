//! How helper threads tell whoever waits for a comm that chunks have finished.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use crate::sync::{AtomicBool, OnceLock, Waker};

/// The bell of one comm. It makes a system call only when somebody waits for it, and one for all
/// chunks that finish between two harvests.
#[derive(Debug)]
pub(crate) struct Bell {
    /// There once somebody has asked for the comm's descriptors.
    event: OnceLock<Waker>,
    /// Whether it was rung since the last harvest began.
    is_rung: AtomicBool,
}

impl Bell {
    pub(crate) const fn new() -> Self {
        Self { event: OnceLock::new(), is_rung: AtomicBool::new(false) }
    }

    /// A chunk has finished, and lies where the next harvest finds it.
    pub(crate) fn ring(&self) {
        // Either this sees what `silence` stored, and signals; or `silence` sees this, and with it
        // the chunk.
        if !self.is_rung.swap(true, Ordering::AcqRel)
            && let Some(event) = self.event.get()
        {
            event.notify();
        }
    }

    /// A harvest begins.
    pub(crate) fn silence(&self) {
        self.is_rung.swap(false, Ordering::AcqRel);
    }

    /// What to watch for its rings. Its count is never read: for a watcher of edges every ring is
    /// one.
    pub(crate) fn watch(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(event) = self.event.get() {
            return Ok(event.as_fd());
        }
        let made = Waker::new()?;
        let event = self.event.get_or_init(|| made);
        // For what was rung before.
        event.notify();
        Ok(event.as_fd())
    }

    /// Whether somebody watches it.
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
    fn it_is_heard_once_for_each_harvest_also_by_whoever_comes_late() {
        let bell = Bell::new();
        bell.ring();
        assert!(!bell.is_watched());
        let event = bell.watch().expect("eventfd").try_clone_to_owned().expect("a copy");
        let is_heard = || {
            let heard = wait(&[(event.as_fd(), Interest::Read)], Some(Duration::ZERO));
            bell.event.get().expect("it is watched").clear();
            heard.expect("poll")[0]
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
