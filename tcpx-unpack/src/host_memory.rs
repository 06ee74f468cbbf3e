#![allow(unsafe_code)]
//! The host backend for ordinary memory, which is also the reference for the other backends.

use std::ptr;

use crate::choice::Backend;
use crate::error::UnpackError;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// Backend that copies with the CPU inside `submit`. Every ticket is finished when it is returned.
#[derive(Debug)]
pub(crate) struct HostMemoryUnpack {
    finished: Ticket,
    is_shut_down: bool,
}

impl HostMemoryUnpack {
    pub(crate) const fn new() -> Self {
        Self { finished: Ticket::NONE, is_shut_down: false }
    }
}

impl Unpack for HostMemoryUnpack {
    fn backend(&self) -> Backend {
        Backend::Host
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        check_all(jobs)?;
        if self.is_shut_down {
            return Err(UnpackError::ShutDown);
        }
        for job in jobs {
            // SAFETY: the caller vouches for the job's memories, and check_all has found every
            // fragment inside them.
            unsafe { gather(job) };
        }
        self.finished = self.finished.next();
        Ok(self.finished)
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        Ok(self.finished)
    }

    fn shutdown(&mut self) -> bool {
        self.is_shut_down = true;
        true
    }
}

/// Copies every fragment of a checked job with the CPU.
///
/// # Safety
/// `bounce..bounce + bounce_bytes` is readable and `dst..dst + dst_bytes` writable by the CPU,
/// they don't overlap, and every descriptor lies inside both.
pub(crate) unsafe fn gather(job: &UnpackJob<'_>) {
    let bounce = ptr::with_exposed_provenance::<u8>(job.bounce as usize);
    let dst = ptr::with_exposed_provenance_mut::<u8>(job.dst as usize);
    for descriptor in job.descriptors {
        // SAFETY:
        // - src_off + len <= bounce_bytes and dst_off + len <= dst_bytes, so both pointers and
        //   the bytes behind them stay inside memory that the caller vouches for;
        // - the two memories don't overlap, so neither do these parts of them.
        unsafe {
            ptr::copy_nonoverlapping(
                bounce.add(descriptor.src_off as usize),
                dst.add(descriptor.dst_off as usize),
                descriptor.len as usize,
            );
        }
    }
}
