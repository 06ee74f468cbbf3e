//! Kinds of memory that the data checks can use. What CUDA memory will need is decided here.

use serde::{Deserialize, Serialize};

use crate::halt::{Verdict, skip};

/// Kind of memory behind the registrations of the data checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Ordinary memory, page-aligned and registered as device memory. For plugins that emulate device memory.
    #[default]
    Emulated,
    /// Ordinary memory registered as host memory.
    Host,
    /// Memory of a CUDA GPU.
    Cuda,
}

impl MemoryKind {
    /// The `type` argument of `regMr`.
    pub(crate) const fn pointer_type(self) -> i32 {
        match self {
            Self::Host => tcpx_sys::PTR_HOST,
            Self::Emulated | Self::Cuda => tcpx_sys::PTR_CUDA,
        }
    }

    /// Skips the check where an agent cannot allocate this kind.
    pub(crate) fn require_available(self) -> Verdict {
        match self {
            Self::Emulated | Self::Host => Ok(()),
            Self::Cuda => Err(skip("CUDA memory is not built in yet")),
        }
    }

    /// Skips the check where receives do not come as entries of the unpack queue.
    pub(crate) fn require_entries(self) -> Verdict {
        self.require_available()?;
        match self {
            Self::Emulated | Self::Cuda => Ok(()),
            Self::Host => Err(skip("receives into host memory have no entries")),
        }
    }
}
