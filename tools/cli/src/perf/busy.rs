//! Busy threads, which load processors during a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::failure::Failure;

/// Threads that compute until this is dropped.
#[derive(Debug, Default)]
pub(super) struct BusyThreads {
    is_over: Arc<AtomicBool>,
}

impl BusyThreads {
    /// Starts this many threads.
    pub(super) fn start(threads: u32) -> Result<Self, Failure> {
        let work = Self::default();
        for _ in 0..threads {
            let is_over = Arc::clone(&work.is_over);
            thread::Builder::new()
                .name("other-work".into())
                // Without a hint to the processor that the thread is waiting: work gives none.
                .spawn(move || while !is_over.load(Ordering::Relaxed) {})
                .map_err(Failure::io("starting a thread of other work"))?;
        }
        Ok(work)
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_its_owner() {
        let work = BusyThreads::start(2).unwrap();
        let is_over = Arc::clone(&work.is_over);
        assert_eq!(Arc::strong_count(&is_over), 4, "each thread has one");
        drop(work);
        while Arc::strong_count(&is_over) > 1 {
            thread::yield_now();
        }
    }
}
