#![allow(unsafe_code)]
//! The host backend for CUDA memory. It copies to pinned host memory, gathers there, and copies
//! back.
//!
//! Every copy is queued on one stream, in order. The copies down put the fragments side by side,
//! which gathers them. One copy up takes all that is contiguous at the destination, which is a
//! whole chunk where its fragments are in order. Because the stream keeps the order, the staging
//! buffer can be reused at once.

mod step;

use std::mem::ManuallyDrop;

use tcpx_cuda::{CudaError, CudaGpu, MarkedStream, PinnedBuffer, is_host_memory};

use self::step::{Step, steps};
use crate::bounce_memo::BounceMemo;
use crate::choice::Backend;
use crate::copy_stream::CopyStream;
use crate::error::UnpackError;
use crate::extent::extents;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// Size of the staging buffer: the longest message that NCCL sends in one piece.
const STAGING_BYTES: u64 = 4 << 20;

/// Backend that copies through pinned host memory.
pub(crate) struct StagedUnpack {
    gpu: CudaGpu,
    copies: CopyStream,
    /// Whether each bounce buffer is host memory.
    hosts: BounceMemo<bool>,
    /// Staging buffer, dropped by hand, and never while the GPU may still use it.
    staging: ManuallyDrop<PinnedBuffer>,
}

impl StagedUnpack {
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        Ok(Self {
            gpu: gpu.clone(),
            copies: CopyStream::new(gpu)?,
            hosts: BounceMemo::new(),
            staging: ManuallyDrop::new(PinnedBuffer::new(gpu, STAGING_BYTES)?),
        })
    }
}

/// Returns whether a bounce buffer is host memory. The driver is asked once.
pub(crate) fn is_host(
    hosts: &mut BounceMemo<bool>,
    gpu: &CudaGpu,
    bounce: u64,
) -> Result<bool, CudaError> {
    if let Some(known) = hosts.get(bounce) {
        return Ok(known);
    }
    let is_host = is_host_memory(gpu, bounce)?;
    hosts.set(bounce, is_host);
    Ok(is_host)
}

/// Queues one job's copies. `is_host`: whether the bounce buffer is in host memory. Its fragments
/// need no copy down then: they go straight up.
///
/// # Safety
/// The job is checked, its memories stay valid until the stream has done the copies, and every
/// other use of the staging buffer is on the same stream.
unsafe fn queue(
    stream: &mut MarkedStream,
    staging: &PinnedBuffer,
    job: &UnpackJob<'_>,
    is_host: bool,
) -> Result<(), CudaError> {
    let extents = extents(job.bounce, job.dst, job.descriptors);
    if is_host {
        for extent in extents {
            // SAFETY: the extent lies in the job's memories, for which the caller vouches.
            unsafe { stream.copy(extent.dst, extent.src, extent.bytes) }?;
        }
        return Ok(());
    }
    for step in steps(extents, staging.bytes()) {
        let (dst, src, bytes) = match step {
            Step::Down { src, at, bytes } => (staging.address() + at, src, bytes),
            Step::Up { at, dst, bytes } => (dst, staging.address() + at, bytes),
        };
        // SAFETY: one side lies in the job's memories, for which the caller vouches. The other lies
        // in the staging buffer, which only this stream uses, in order.
        unsafe { stream.copy(dst, src, bytes) }?;
    }
    Ok(())
}

impl Unpack for StagedUnpack {
    fn backend(&self) -> Backend {
        Backend::Host
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        check_all(jobs)?;
        let (gpu, staging, hosts) = (&self.gpu, &self.staging, &mut self.hosts);
        self.copies.submit(|stream| {
            let with_bytes = jobs.iter().enumerate().filter(|(_, job)| !job.descriptors.is_empty());
            for (index, job) in with_bytes {
                let failed = |source| UnpackError::Copy { job: index, source };
                let is_host = is_host(hosts, gpu, job.bounce).map_err(failed)?;
                // SAFETY: check_all has passed the job, and the caller keeps its memories as they
                // are until the ticket behind these copies is finished.
                unsafe { queue(stream, staging, job, is_host) }.map_err(failed)?;
            }
            Ok(())
        })
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        self.copies.poll()
    }

    fn shutdown(&mut self) -> bool {
        self.copies.shutdown()
    }
}

impl Drop for StagedUnpack {
    fn drop(&mut self) {
        if self.shutdown() {
            // SAFETY: nothing uses the staging buffer any more, and it is dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.staging) };
        } else {
            tracing::error!("copies are still running: their staging buffer is leaked");
        }
    }
}
