#![allow(unsafe_code)]
//! The d2d backend: one copy by the driver for each extent of neighbouring fragments.

use tcpx_cuda::{CudaError, CudaGpu};

use crate::choice::Backend;
use crate::copy_stream::CopyStream;
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
    copies: CopyStream,
}

impl D2dUnpack {
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        Ok(Self { copies: CopyStream::new(gpu)? })
    }
}

impl Unpack for D2dUnpack {
    fn backend(&self) -> Backend {
        Backend::D2d
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        check_all(jobs)?;
        self.copies.submit(|stream| {
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
        self.copies.poll()
    }

    fn shutdown(&mut self) -> bool {
        self.copies.shutdown()
    }
}
