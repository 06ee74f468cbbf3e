//! Errors of opening a backend and of copying.

use std::fmt;

use tcpx_cuda::CudaError;

use crate::choice::Backend;

/// One of the two memories of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// The bounce buffer, which is read.
    Bounce,
    /// The destination, which is written.
    Destination,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bounce => "bounce buffer",
            Self::Destination => "destination",
        })
    }
}

/// Reason of a failed unpack.
///
/// [`OutOfBounds`](Self::OutOfBounds), [`BadRange`](Self::BadRange), [`Overlap`](Self::Overlap) and
/// [`Busy`](Self::Busy) are found before anything is copied. The unpacker has touched no memory
/// then, and stays usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The backend cannot work here.
    #[error("unpack backend {backend} is unavailable: {reason}")]
    Unavailable {
        /// The requested backend.
        backend: Backend,
        /// Missing prerequisite.
        reason: String,
    },
    /// A descriptor reaches outside its job's memory.
    #[error(
        "job {job}, descriptor {entry}: {len} bytes at offset {offset} reach outside the \
         {side} of {bytes} bytes"
    )]
    OutOfBounds {
        /// Index of the job in the submit.
        job: usize,
        /// Index of the descriptor in the job.
        entry: usize,
        /// The memory that the descriptor leaves.
        side: Side,
        /// Offset of the fragment in that memory, in bytes.
        offset: u64,
        /// Length of the fragment in bytes.
        len: u64,
        /// Size of that memory in bytes.
        bytes: u64,
    },
    /// A job's memory is null or wraps around the address space.
    #[error("job {job}: the {side} of {bytes} bytes at {address:#x} is not valid memory")]
    BadRange {
        /// Index of the job in the submit.
        job: usize,
        /// The affected memory.
        side: Side,
        /// Address of the memory.
        address: u64,
        /// Size of the memory in bytes.
        bytes: u64,
    },
    /// A job's bounce buffer and destination share bytes.
    #[error("job {job}: the bounce buffer at {bounce:#x} and the destination at {dst:#x} overlap")]
    Overlap {
        /// Index of the job in the submit.
        job: usize,
        /// Address of the bounce buffer.
        bounce: u64,
        /// Address of the destination.
        dst: u64,
    },
    /// The driver refused a copy of this job. The unpacker does not recover from it, and later
    /// calls report [`Cuda`](Self::Cuda).
    #[error("job {job}: {source}")]
    Copy {
        /// Index of the job in the submit.
        job: usize,
        /// The driver's error.
        source: CudaError,
    },
    /// CUDA failed, and the driver does not say which job is to blame. The unpacker does not
    /// recover from it.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// Too much is in flight. Nothing was touched; the same jobs can be submitted again once
    /// [`poll`](crate::Unpack::poll) has reached a later ticket.
    #[error("the queue of the unpacker is full")]
    Busy,
    /// The unpacker was shut down.
    #[error("the unpacker was shut down")]
    ShutDown,
}

impl UnpackError {
    /// Returns the index of the job in the submit that failed, where it is known.
    #[must_use]
    pub fn job(&self) -> Option<usize> {
        match *self {
            Self::OutOfBounds { job, .. }
            | Self::BadRange { job, .. }
            | Self::Overlap { job, .. }
            | Self::Copy { job, .. } => Some(job),
            Self::Unavailable { .. } | Self::Cuda(_) | Self::Busy | Self::ShutDown => None,
        }
    }

    /// Returns the same failure without its job, for later calls, which have other jobs.
    #[must_use]
    pub fn without_job(self) -> Self {
        match self {
            Self::Copy { source, .. } => Self::Cuda(source),
            other => other,
        }
    }
}
