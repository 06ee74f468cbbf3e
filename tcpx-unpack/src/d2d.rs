#![allow(unsafe_code)]
//! The d2d backend: one copy by the driver for each extent of neighbouring fragments.

use tcpx_cuda::{CudaError, CudaGpu, Stream};

use crate::choice::Backend;
use crate::completion::{Completions, is_over};
use crate::error::UnpackError;
use crate::extent::extents;
use crate::job::{UnpackJob, check_all};
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// Backend that copies on one stream.
///
/// Each copy costs the CPU about 3 µs. The backend is therefore fast where pages arrive in order,
/// and slow where they don't.
pub(crate) struct D2dUnpack {
    gpu: CudaGpu,
    stream: Stream,
    completions: Completions,
}

impl D2dUnpack {
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        let _entered = gpu.enter()?;
        Ok(Self {
            gpu: gpu.clone(),
            stream: Stream::new(gpu)?,
            completions: Completions::new(gpu)?,
        })
    }
}

impl Unpack for D2dUnpack {
    fn backend(&self) -> Backend {
        Backend::D2d
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        check_all(jobs)?;
        let _entered = self.gpu.enter()?;
        let stream = &self.stream;
        self.completions.submit(stream, || {
            for (index, job) in jobs.iter().enumerate() {
                for extent in extents(job.bounce, job.dst, job.descriptors) {
                    // SAFETY: check_all has found the extent inside the job's memories, and the
                    // caller keeps those as they are until the ticket of this copy is finished.
                    unsafe { stream.copy(extent.dst, extent.src, extent.bytes) }
                        .map_err(|source| UnpackError::Copy { job: index, source })?;
                }
            }
            Ok(())
        })
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        // Without a submit under way the driver is not asked.
        let _entered = self.completions.are_under_way().then(|| self.gpu.enter()).transpose()?;
        self.completions.poll()
    }

    fn shutdown(&mut self) -> bool {
        self.completions.stop();
        is_over(&self.gpu, &self.stream)
    }
}
