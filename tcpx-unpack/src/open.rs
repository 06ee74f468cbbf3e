//! Choice and opening of a backend.

use std::fmt;

use tcpx_cuda::{CudaError, CudaGpu};

use crate::auto::AutoUnpack;
use crate::choice::{Backend, Choice, MemoryKind};
use crate::copy_threads::CopyThreads;
use crate::d2d::D2dUnpack;
use crate::error::UnpackError;
use crate::host_memory::HostMemoryUnpack;
use crate::kernel::KernelUnpack;
use crate::staged::StagedUnpack;
use crate::threaded::ThreadedUnpack;
use crate::unpack::Unpack;

/// Unpacker that is ready for work, and the reason for its choice.
#[non_exhaustive]
pub struct OpenedBackend {
    /// The unpacker.
    pub unpack: Box<dyn Unpack>,
    /// One sentence for the log: the backend, and the reason against others.
    pub why: String,
}

impl fmt::Debug for OpenedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedBackend")
            .field("backend", &self.unpack.backend())
            .field("why", &self.why)
            .finish()
    }
}

/// Opens the backend that `choice` requests, for bounce buffers and destinations in `memory`.
///
/// Ordinary memory has the host backend alone. For CUDA memory, [`Choice::Auto`] takes the first of
/// kernel, d2d and host that works. Opening compiles and tries the kernel, so open once, and not
/// for each transfer.
///
/// # Errors
/// Returns [`UnpackError::Unavailable`] when the backend does not exist for this memory, or when
/// something that it needs is missing.
pub fn open(choice: Choice, memory: MemoryKind) -> Result<OpenedBackend, UnpackError> {
    open_with_threads(choice, memory, 0)
}

/// Opens the backend with up to `copy_threads` copy threads, which copy where the CPU has to: in
/// ordinary memory. The threads start when there is enough to copy, and end with the unpacker. With
/// 0, the thread that submits also copies.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_with_threads(
    choice: Choice,
    memory: MemoryKind,
    copy_threads: usize,
) -> Result<OpenedBackend, UnpackError> {
    let opened = match memory {
        MemoryKind::Host => open_host_memory(choice, copy_threads),
        MemoryKind::Cuda { gpu } => open_cuda(choice, gpu),
    }?;
    tracing::info!(backend = %opened.unpack.backend(), %memory, why = opened.why, "unpack is open");
    Ok(opened)
}

fn open_cuda(choice: Choice, ordinal: u32) -> Result<OpenedBackend, UnpackError> {
    let asked = choice.backend();
    let gpu = CudaGpu::open(ordinal).map_err(|error| UnpackError::Unavailable {
        backend: asked.unwrap_or(Backend::Kernel),
        reason: error.to_string(),
    })?;
    if let Some(backend) = asked {
        return match open_on(choice, &gpu) {
            Ok(unpack) => Ok(OpenedBackend { unpack, why: format!("{backend}: asked for") }),
            Err(reason) => Err(UnpackError::Unavailable { backend, reason }),
        };
    }
    let mut refusals = Vec::new();
    for choice in [Choice::Auto, Choice::D2d, Choice::Host] {
        let backend = choice.backend().unwrap_or(Backend::Kernel);
        match open_on(choice, &gpu) {
            Ok(unpack) if refusals.is_empty() => {
                let why = format!("{backend}: the fastest, and it passed its self-check");
                return Ok(OpenedBackend { unpack, why });
            }
            Ok(unpack) => {
                let why = format!("{backend}: {}", refusals.join("; "));
                tracing::warn!(gpu = ordinal, why, "unpack falls back to a slower backend");
                return Ok(OpenedBackend { unpack, why });
            }
            Err(reason) => refusals.push(format!("{backend} is unavailable: {reason}")),
        }
    }
    Err(UnpackError::Unavailable { backend: Backend::Kernel, reason: refusals.join("; ") })
}

fn open_on(choice: Choice, gpu: &CudaGpu) -> Result<Box<dyn Unpack>, String> {
    let describe = |error: CudaError| error.to_string();
    Ok(match choice {
        Choice::Host => Box::new(StagedUnpack::new(gpu).map_err(describe)?),
        Choice::D2d => Box::new(D2dUnpack::new(gpu).map_err(describe)?),
        Choice::Kernel => Box::new(KernelUnpack::new(gpu)?),
        Choice::Auto => Box::new(AutoUnpack::new(gpu)?),
    })
}

fn open_host_memory(choice: Choice, copy_threads: usize) -> Result<OpenedBackend, UnpackError> {
    if let Some(backend @ (Backend::D2d | Backend::Kernel)) = choice.backend() {
        return Err(UnpackError::Unavailable {
            backend,
            reason: "the bytes live in ordinary memory, where only host works".to_owned(),
        });
    }
    let why = "host: the bytes live in ordinary memory".to_owned();
    Ok(match copy_threads {
        0 => OpenedBackend { unpack: Box::new(HostMemoryUnpack::new()), why },
        _ => OpenedBackend {
            unpack: Box::new(ThreadedUnpack::new(CopyThreads::new(copy_threads))),
            why: format!("{why}, which {copy_threads} threads may copy"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_memory_has_the_host_backend_alone() {
        for choice in [Choice::Auto, Choice::Host] {
            assert_eq!(open(choice, MemoryKind::Host).unwrap().unpack.backend(), Backend::Host);
        }
        for choice in [Choice::D2d, Choice::Kernel] {
            let error = open(choice, MemoryKind::Host).unwrap_err();
            assert!(matches!(
                error,
                UnpackError::Unavailable { backend, .. } if Some(backend) == choice.backend()
            ));
        }
    }
}
