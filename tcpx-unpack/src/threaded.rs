#![allow(unsafe_code)]
//! The host backend for ordinary memory where there are processors to spare: threads copy.
//!
//! The threads take pieces of 64 KiB off one queue, and submits finish in order. A submit of up to
//! 128 KiB is copied at once, because that takes less than to wake a thread. When something has
//! finished, the threads wake the caller's thread by [`OnFinished`], so no caller has to ask.

use crate::choice::Backend;
use crate::copy_threads::CopyThreads;
use crate::error::UnpackError;
use crate::host_memory::gather;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::{OnFinished, Unpack};

/// So many bytes are copied inside `submit`: that takes less than to wake a thread.
const INLINE_BYTES: u64 = 128 << 10;

/// Copies short submits at once, and has threads copy long ones.
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
            // SAFETY: the caller promises for as long as `poll` and `shutdown`, which ask the
            // threads, have not answered; the jobs are checked.
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
