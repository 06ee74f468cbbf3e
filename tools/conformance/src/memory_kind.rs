//! Kinds of memory of the data checks.

use std::fmt;

use serde::{Deserialize, Serialize};
use tcpx_cuda::CudaGpu;

/// Kind of memory that the data checks register.
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
    /// Returns the `type` argument of `regMr`.
    pub(crate) const fn pointer_type(self) -> i32 {
        match self {
            Self::Host => tcpx_sys::PTR_HOST,
            Self::Emulated | Self::Cuda => tcpx_sys::PTR_CUDA,
        }
    }

    /// Returns the kind to check with: `wanted`, else the one that suits the plugin. The error is a
    /// kind that the hardware plugin does not take.
    pub(crate) fn choose(
        wanted: Option<Self>,
        is_gpu_named: bool,
        is_hardware: bool,
    ) -> Result<Self, Self> {
        match wanted {
            Some(kind @ (Self::Emulated | Self::Host)) if is_hardware => Err(kind),
            Some(kind) => Ok(kind),
            None if is_hardware || is_gpu_named => Ok(Self::Cuda),
            None => Ok(Self::Emulated),
        }
    }

    /// Returns the GPU whose context is current in the agents: the one of this ordinal, or the
    /// first one. The error says why there is none.
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

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emulated => "emulated",
            Self::Host => "host",
            Self::Cuda => "cuda",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hardware_plugin_is_checked_with_gpu_memory_or_not_at_all() {
        use MemoryKind::{Cuda, Emulated, Host};
        for named in [false, true] {
            assert_eq!(MemoryKind::choose(None, named, true), Ok(Cuda));
            assert_eq!(MemoryKind::choose(Some(Cuda), named, true), Ok(Cuda));
            assert_eq!(MemoryKind::choose(Some(Emulated), named, true), Err(Emulated));
            assert_eq!(MemoryKind::choose(Some(Host), named, true), Err(Host));
        }
        assert_eq!(MemoryKind::choose(None, false, false), Ok(Emulated));
        assert_eq!(MemoryKind::choose(None, true, false), Ok(Cuda));
        for kind in [Cuda, Emulated, Host] {
            assert_eq!(MemoryKind::choose(Some(kind), false, false), Ok(kind));
        }
    }
}
