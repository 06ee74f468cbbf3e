//! The thread of a session that makes progress whatever the program does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::shared::Shared;
use crate::error::{Error, Result};
use crate::session::wait::{WaitLimit, Waiter};

/// A running progress thread.
#[derive(Debug)]
pub(super) struct ProgressThread {
    stop: Arc<AtomicBool>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl ProgressThread {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self> {
        let (shared, stop) = (Arc::clone(shared), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let handle = std::thread::Builder::new()
            .name("tcpx-progress".into())
            .spawn(move || {
                let mut waiter = Waiter::new(WaitLimit::endless(), shared.spin);
                while !stopped.load(Ordering::Acquire) {
                    let moved = shared.progress();
                    waiter.pause(moved, Instant::now());
                }
            })
            .map_err(|error| Error::io("starting the progress thread", &error))?;
        Ok(Self { stop, handle: Mutex::new(Some(handle)) })
    }

    /// Lets it end, and waits for that: at most a round and a pause. More than one call does no
    /// harm.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && handle.thread().id() != std::thread::current().id()
        {
            let _ = handle.join();
        }
    }
}
