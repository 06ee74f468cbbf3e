//! Choice of the memory that is sent from and received into.

use std::fmt;

use serde::{Deserialize, Serialize};
use tcpx_core::MemoryType;

/// Values of `--memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MemoryChoice {
    /// CUDA memory if there is a GPU, else emulated
    #[default]
    Auto,
    /// Ordinary memory that stands in for GPU memory: bounce buffer and unpack, on any machine. Not
    /// with the hardware plugin
    Emulated,
    /// Ordinary memory, received straight into place. Not with the hardware plugin
    Host,
    /// GPU memory
    Cuda,
}

/// Kind of memory that both ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Memory {
    /// Ordinary memory that stands in for GPU memory
    Emulated,
    /// Ordinary memory, registered as such
    Host,
    /// GPU memory
    Cuda,
}

impl MemoryChoice {
    /// Decides `auto`: `has_gpu` where a GPU was named or the driver shows one.
    pub(crate) fn decide(self, has_gpu: bool) -> Memory {
        match self {
            Self::Auto if has_gpu => Memory::Cuda,
            Self::Auto | Self::Emulated => Memory::Emulated,
            Self::Host => Memory::Host,
            Self::Cuda => Memory::Cuda,
        }
    }
}

impl Memory {
    /// Returns the type with which the memory is registered.
    pub(crate) fn memory_type(self) -> MemoryType {
        match self {
            Self::Host => MemoryType::Host,
            Self::Emulated | Self::Cuda => MemoryType::Device,
        }
    }

    /// Returns whether the memory is a GPU's.
    pub(crate) fn has_gpu(self) -> bool {
        self == Self::Cuda
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Emulated => "emulated",
            Self::Host => "host",
            Self::Cuda => "cuda",
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_gpu_and_every_other_choice_itself() {
        assert_eq!(MemoryChoice::Auto.decide(false), Memory::Emulated);
        assert_eq!(MemoryChoice::Auto.decide(true), Memory::Cuda);
        assert_eq!(MemoryChoice::Emulated.decide(true), Memory::Emulated);
        assert_eq!(MemoryChoice::Host.decide(true), Memory::Host);
        assert_eq!(MemoryChoice::Cuda.decide(false), Memory::Cuda);
    }
}
