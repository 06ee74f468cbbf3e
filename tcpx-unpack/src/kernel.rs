#![allow(unsafe_code)]
//! The kernel backend: one launch for all jobs of a submit.
//!
//! `kernels/unpack.cu` says how the kernel copies, and what was measured for the choices made.
//!
//! - `image`: the compiled kernel
//! - `tile`: the pieces of fragments that the kernel copies, cut from jobs, and entries for them
//! - `reach`: how many warps look at each entry
//! - `regular`: the same faster, where each fragment is one
//! - `ring`: which places of the ring of tiles are in use
//! - `cutting`: all that for the bench, without a launch
//! - `launch`: what one launch hands to the kernel, and how it reports its end
//! - `staging`: what to do about bounce buffers that the kernel cannot read
//! - `launch_queue`: the launches in flight, on several streams
//! - `self_check`: whether a new backend copies and reports

mod cutting;
mod image;
mod launch;
mod launch_queue;
mod reach;
mod regular;
mod ring;
mod self_check;
mod staging;
mod tile;

use tcpx_cuda::{CudaError, CudaGpu, is_readable};

pub use self::cutting::Cutting;
use self::launch_queue::LaunchQueue;
use crate::choice::Backend;
use crate::error::UnpackError;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// How many bounce buffers are remembered as readable; a GPU has fewer channels.
const REMEMBERED: usize = 64;

/// Copies with the kernel. Where the kernel cannot read, it copies from a staging buffer.
pub(crate) struct KernelUnpack {
    gpu: CudaGpu,
    queue: LaunchQueue,
    /// Bounce buffers, by address and size, that the kernel can read.
    readable: Vec<(u64, u64)>,
    warned: bool,
}

impl KernelUnpack {
    /// Loads the kernel and makes sure that it works. The error is a reason for people to read.
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, String> {
        let describe = |error: CudaError| error.to_string();
        let _entered = gpu.enter().map_err(describe)?;
        let mut queue = LaunchQueue::new(gpu).map_err(describe)?;
        self_check::run(gpu, &mut queue).map_err(|what| format!("self-check: {what}"))?;
        let readable = Vec::with_capacity(REMEMBERED);
        Ok(Self { gpu: gpu.clone(), queue, readable, warned: false })
    }

    /// Whether the kernel can read every job's bounce buffer.
    ///
    /// The driver is asked once for each. A bounce buffer lives as long as its channel, and one
    /// that comes after it at the same address comes from the same allocator.
    fn all_readable(&mut self, jobs: &[UnpackJob<'_>]) -> Result<bool, CudaError> {
        for job in jobs.iter().filter(|job| !job.descriptors.is_empty()) {
            let bounce = (job.bounce, job.bounce_bytes);
            if self.readable.last() == Some(&bounce) || self.readable.contains(&bounce) {
                continue;
            }
            if !is_readable(&self.gpu, job.bounce, job.bounce_bytes)? {
                return Ok(false);
            }
            if self.readable.len() == REMEMBERED {
                self.readable.clear();
            }
            self.readable.push(bounce);
        }
        Ok(true)
    }
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
