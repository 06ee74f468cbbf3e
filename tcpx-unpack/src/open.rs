//! Choosing a backend.

use std::fmt;

use crate::host_memory::HostMemoryUnpack;
use crate::{Backend, Choice, MemoryKind, Unpack, UnpackError};

/// An unpacker that is ready for work, and the reason why it is this one.
pub struct Opened {
    /// The unpacker.
    pub unpack: Box<dyn Unpack>,
    /// One sentence for the log: which backend, and why not another.
    pub why: String,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("backend", &self.unpack.backend())
            .field("why", &self.why)
            .finish()
    }
}

/// Opens the backend that `choice` asks for, for bounce buffers and destinations in `memory`.
///
/// Ordinary memory has the host backend alone.
///
/// # Errors
/// [`UnpackError::Unavailable`] when the backend does not exist for this memory or when what it
/// needs is missing.
pub fn open(choice: Choice, memory: MemoryKind) -> Result<Opened, UnpackError> {
    match memory {
        MemoryKind::Host => open_host_memory(choice),
        MemoryKind::Cuda { .. } => Err(UnpackError::Unavailable {
            backend: choice.backend().unwrap_or(Backend::Kernel),
            reason: "this build has no CUDA backend".to_owned(),
        }),
    }
}

fn open_host_memory(choice: Choice) -> Result<Opened, UnpackError> {
    match choice.backend() {
        None | Some(Backend::Host) => Ok(Opened {
            unpack: Box::new(HostMemoryUnpack::new()),
            why: "host: the bytes live in ordinary memory".to_owned(),
        }),
        Some(backend) => Err(UnpackError::Unavailable {
            backend,
            reason: "the bytes live in ordinary memory, where only host works".to_owned(),
        }),
    }
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
