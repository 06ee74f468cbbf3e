//! Kinds of memory that the data checks can use.

use serde::{Deserialize, Serialize};
use tcpx_cuda::CudaGpu;

/// The memory that the data checks register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MemoryKind {
    /// Ordinary memory, page-aligned and registered as device memory. For plugins that emulate
    /// device memory.
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

    /// The GPU whose context is current in the agents, of this ordinal or the first one; the error
    /// says why there is none.
    pub(crate) fn gpu(self, ordinal: Option<u32>) -> Result<Option<u32>, String> {
        if self != Self::Cuda {
            return Ok(None);
        }
        let ordinal = ordinal.unwrap_or(0);
        match CudaGpu::count() {
            Ok(count) if ordinal < count => Ok(Some(ordinal)),
            Ok(count) => Err(format!("there is no GPU {ordinal}: the driver shows {count}")),
            Err(error) => Err(error.to_string()),
        }
    }
}
