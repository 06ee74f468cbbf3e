//! Progress thread of a device, near its GPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tcpx_sys::CpuSet;

use crate::error::{Error, Result};

/// Progress thread, if there is one.
#[derive(Debug, Default)]
pub(super) struct ProgressThread {
    stop: Arc<AtomicBool>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl ProgressThread {
    /// Starts it, on these processors. `run` gets the mark that says when it has to end.
    ///
    /// # Errors
    /// [`Error::Io`]: the system starts no thread.
    pub(super) fn start(
        &self,
        cpus: Option<CpuSet>,
        run: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<()> {
        let stopped = Arc::clone(&self.stop);
        let handle = std::thread::Builder::new()
            .name("tcpx-progress".into())
            .spawn(move || {
                match cpus.as_ref().map(CpuSet::run_here) {
                    None => {}
                    Some(Ok(())) => tracing::info!(?cpus, "the progress thread runs near its GPU"),
                    Some(Err(error)) => {
                        tracing::warn!(?cpus, %error, "the progress thread cannot run near its GPU");
                    }
                }
                run(&stopped);
            })
            .map_err(|error| Error::io("starting the progress thread", &error))?;
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(())
    }

    /// Stops it and waits for its end, which takes at most a round. More than one call does no
    /// harm. `wake` ends its wait for events.
    pub(super) fn stop(&self, wake: impl FnOnce()) {
        self.stop.store(true, Ordering::SeqCst);
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(handle) = handle else { return };
        wake();
        handle.thread().unpark();
        if handle.thread().id() != std::thread::current().id() {
            let _ = handle.join();
        }
    }

    /// Ends its rest.
    pub(super) fn unpark(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &*handle {
            handle.thread().unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    /// Returns where the system lets the calling thread run.
    fn allowed() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").expect("Linux has it");
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.expect("it has this line").trim().to_owned()
    }

    #[test]
    fn it_runs_where_it_is_told_and_no_other_thread_does() {
        let own = allowed();
        let first = own.split([',', '-']).next().expect("a processor");
        for (cpus, expected) in [(Some(first.parse().expect("a list")), first), (None, &own)] {
            let (thread, (seen, place)) = (ProgressThread::default(), mpsc::channel());
            let run = move |stopped: &AtomicBool| {
                seen.send(allowed()).expect("the test waits");
                while !stopped.load(Ordering::SeqCst) {
                    std::thread::park();
                }
            };
            thread.start(cpus, run).expect("the system starts threads");
            assert_eq!(place.recv().expect("it runs"), expected);
            thread.stop(|| {});
        }
        assert_eq!(allowed(), own);
    }
}
