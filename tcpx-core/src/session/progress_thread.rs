//! The thread of a session that makes progress whatever the program does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;

use super::shared::Shared;
use super::wait::WaitLimit;
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
                let is_stopped = |_: &mut _| match stopped.load(Ordering::SeqCst) {
                    true => Ok(Poll::Ready(())),
                    false => Ok(Poll::Pending),
                };
                // It has no deadline, so it ends when it is stopped.
                let _ = driven.wait(WaitLimit::endless(), is_stopped, |_, _, _| Error::Closed);
            })
            .map_err(|error| Error::io("starting the progress thread", &error))?;
        Ok(Self { shared: Arc::clone(shared), stop, handle: Mutex::new(Some(handle)) })
    }

    /// Lets it end, and waits for that: at most a round. More than one call does no harm.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && handle.thread().id() != std::thread::current().id()
        {
            let _ = handle.join();
        }
    }
}
