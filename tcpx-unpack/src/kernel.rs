#![allow(unsafe_code)]
//! The kernel backend: one launch for all jobs of a submit.
//!
//! `kernels/unpack.cu` describes how the kernel copies, and gives the measurements behind its
//! design.
//!
//! - `image`: the compiled kernel
//! - `tile`: the pieces of fragments that the kernel copies, cut from jobs, and entries for them
//! - `reach`: the number of warps for each entry
//! - `regular`: a faster path, where each fragment is one tile
//! - `ring`: allocation of places in the ring of tiles
//! - `cutter`: the CPU's part for the bench, without a launch
//! - `launch`: the parameters of one launch, and the report of its end
//! - `staging`: plans for bounce buffers that the kernel cannot read
//! - `launch_queue`: the launches in flight, on several streams
//! - `self_check`: the check that a new backend copies and reports

mod cutter;
mod image;
mod launch;
mod launch_queue;
mod reach;
mod regular;
mod ring;
mod self_check;
mod staging;
mod tile;

use tcpx_cuda::{CudaError, CudaGpu, allocation_end, is_readable};

pub use self::cutter::Cutter;
use self::launch_queue::LaunchQueue;
use crate::bounce_memo::BounceMemo;
use crate::choice::Backend;
use crate::error::UnpackError;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// Backend that copies with the kernel. Where the kernel cannot read, it copies from a staging
/// buffer.
pub(crate) struct KernelUnpack {
    gpu: CudaGpu,
    queue: LaunchQueue,
    /// Number of bytes of each bounce buffer that the kernel is known to read.
    readable: BounceMemo<u64>,
    warned: bool,
}

impl KernelUnpack {
    /// Loads the kernel and checks that it works. The error is a reason for people to read.
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, String> {
        let describe = |error: CudaError| error.to_string();
        let _entered = gpu.enter().map_err(describe)?;
        let mut queue = LaunchQueue::new(gpu).map_err(describe)?;
        self_check::run(gpu, &mut queue).map_err(|what| format!("self-check: {what}"))?;
        Ok(Self { gpu: gpu.clone(), queue, readable: BounceMemo::new(), warned: false })
    }

    /// Returns whether the kernel can read all bytes of every bounce buffer that the jobs read.
    ///
    /// The driver is asked once for each buffer, and again where a job reads beyond the known
    /// range.
    fn all_readable(&mut self, jobs: &[UnpackJob<'_>]) -> Result<bool, CudaError> {
        for job in jobs.iter().filter(|job| !job.descriptors.is_empty()) {
            if self.readable.get(job.bounce).is_some_and(|bytes| job.bounce_bytes <= bytes) {
                continue;
            }
            let Some(bytes) = readable_bytes(&self.gpu, job)? else { return Ok(false) };
            self.readable.set(job.bounce, bytes);
        }
        Ok(true)
    }
}

/// Returns how much of a job's bounce buffer the kernel can read: all of the allocation that it
/// lies in, or what the job reads. Returns `None` if the kernel cannot even read the latter.
fn readable_bytes(gpu: &CudaGpu, job: &UnpackJob<'_>) -> Result<Option<u64>, CudaError> {
    let all = allocation_end(gpu, job.bounce)?.map_or(0, |end| end - job.bounce);
    for bytes in [all.max(job.bounce_bytes), job.bounce_bytes] {
        if is_readable(gpu, job.bounce, bytes)? {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

impl Unpack for KernelUnpack {
    fn backend(&self) -> Backend {
        Backend::Kernel
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        let gpu = self.gpu.clone();
        let _entered = gpu.enter()?;
        if let Some(count) = regular::count(jobs)
            && self.all_readable(jobs)?
        {
            // SAFETY: the kernel can read the jobs' bounce buffers, and the caller keeps both
            // memories as they are until the ticket is finished.
            let ticket = unsafe { self.queue.submit_regular(jobs, count) }?;
            if let Some(ticket) = ticket {
                return Ok(ticket);
            }
        }
        let checked = check_all(jobs)?;
        tile::check_addresses(jobs)?;
        if self.all_readable(jobs)? {
            // SAFETY: the jobs are checked, the kernel can read their bounce buffers, and the
            // caller keeps both memories as they are until the ticket is finished.
            return unsafe { self.queue.submit(jobs, checked) };
        }
        if !self.warned {
            self.warned = true;
            tracing::warn!(
                gpu = self.gpu.ordinal(),
                "the unpack kernel cannot read the bounce buffer: chunks take one more copy"
            );
        }
        let readable = |job: &UnpackJob<'_>| is_readable(&gpu, job.bounce, job.bounce_bytes);
        // SAFETY: as above, and the queue asks before the kernel reads.
        unsafe { self.queue.submit_staged(jobs, checked, readable) }
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        self.queue.poll()
    }

    fn shutdown(&mut self) -> bool {
        self.queue.shutdown()
    }
}
