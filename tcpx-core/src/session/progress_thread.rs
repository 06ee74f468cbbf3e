//! The thread of a session that makes progress whatever the program does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::shared::Shared;
use crate::error::{Error, Result};

/// A running progress thread.
#[derive(Debug)]
pub(super) struct ProgressThread {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl ProgressThread {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (driven, stopped) = (Arc::clone(shared), Arc::clone(&stop));
        let handle = std::thread::Builder::new()
            .name("tcpx-progress".into())
            .spawn(move || {
                // It ends when it is stopped, or in a forked child.
                let _ = driven.serve(&stopped);
            })
            .map_err(|error| Error::io("starting the progress thread", &error))?;
        Ok(Self { shared: Arc::clone(shared), stop, handle: Mutex::new(Some(handle)) })
    }

    /// Lets it end, and waits for that: at most a round. More than one call does no harm.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = &handle {
            handle.thread().unpark();
        }
        if let Some(handle) = handle
            && handle.thread().id() != std::thread::current().id()
        {
            let _ = handle.join();
        }
    }
}
