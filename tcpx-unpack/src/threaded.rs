#![allow(unsafe_code)]
//! The host backend for ordinary memory on hosts with spare processors: threads copy.
//!
//! The threads take pieces of 64 KiB off one queue, and submits finish in order. A submit of up to
//! 128 KiB is copied at once, because that takes less time than waking a thread. When a submit has
//! finished, the threads wake the caller's thread by [`OnFinished`], so no caller has to poll in a
//! loop.

use crate::choice::Backend;
use crate::copy_threads::CopyThreads;
use crate::error::UnpackError;
use crate::host_memory::gather;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::{OnFinished, Unpack};

/// Longest submit that is copied inside `submit`, in bytes: that takes less time than waking a
/// thread.
const INLINE_BYTES: u64 = 128 << 10;

/// Backend that copies short submits at once, and lets threads copy long submits.
pub(crate) struct ThreadedUnpack {
    threads: CopyThreads,
    submitted: Ticket,
    is_shut_down: bool,
}

impl ThreadedUnpack {
    pub(crate) const fn new(threads: CopyThreads) -> Self {
        Self { threads, submitted: Ticket::NONE, is_shut_down: false }
    }
}

impl Unpack for ThreadedUnpack {
    fn backend(&self) -> Backend {
        Backend::Host
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        check_all(jobs)?;
        if self.is_shut_down {
            return Err(UnpackError::ShutDown);
        }
        let bytes = jobs.iter().fold(0, |sum: u64, job| sum.saturating_add(job.dst_bytes));
        let ticket = self.submitted.next();
        if bytes <= INLINE_BYTES || !self.threads.start_for(bytes) {
            for job in jobs {
                // SAFETY: the caller vouches for the job's memories, and check_all has found every
                // fragment inside them.
                unsafe { gather(job) };
            }
            self.threads.note_copied(ticket);
        } else if self.threads.have_room(bytes) {
            // SAFETY: the caller promises valid memories until `poll` or `shutdown`, which ask the
            // threads, report the end. The jobs are checked.
            unsafe { self.threads.copy(ticket, jobs) };
        } else {
            return Err(UnpackError::Busy);
        }
        self.submitted = ticket;
        Ok(ticket)
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        Ok(self.threads.finished())
    }

    fn shutdown(&mut self) -> bool {
        self.is_shut_down = true;
        self.threads.end()
    }

    fn on_finished(&mut self, on_finished: OnFinished) -> bool {
        self.threads.on_finished(on_finished);
        true
    }
}

#[cfg(test)]
mod tests;
