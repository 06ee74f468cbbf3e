//! Kinds of memory, backends, and the user's choice among them.

use std::fmt;
use std::str::FromStr;

/// Kind of the memory that holds bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Ordinary memory of this process, also when it stands in for device memory.
    Host,
    /// Memory of a CUDA GPU, or pinned host memory mapped into it.
    Cuda {
        /// CUDA ordinal of the GPU.
        gpu: u32,
    },
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("ordinary memory"),
            Self::Cuda { gpu } => write!(f, "memory of GPU {gpu}"),
        }
    }
}

/// Method of copying, as an open [`Unpack`](crate::Unpack) uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Gathers with the CPU (ordinary memory), or in pinned host memory (CUDA memory).
    Host,
    /// Device-to-device copies, one for each extent of neighbouring fragments.
    D2d,
    /// A CUDA kernel, launched once for all jobs of a submit.
    Kernel,
}

impl Backend {
    /// Returns the spelling of this backend in settings and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::D2d => "d2d",
            Self::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Host, Self::D2d, Self::Kernel]
            .into_iter()
            .find(|backend| backend.name() == text)
            .ok_or_else(|| UnknownChoice { text: text.to_owned(), expected: "host, d2d or kernel" })
    }
}

/// The user's choice: the values of the setting `TCPX_UNPACK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Choice {
    /// The fastest backend that works on this memory.
    #[default]
    Auto,
    /// [`Backend::Host`] or an error.
    Host,
    /// [`Backend::D2d`] or an error.
    D2d,
    /// [`Backend::Kernel`] or an error.
    Kernel,
}

impl Choice {
    /// Returns the requested backend, or `None` for [`Choice::Auto`].
    #[must_use]
    pub const fn backend(self) -> Option<Backend> {
        match self {
            Self::Auto => None,
            Self::Host => Some(Backend::Host),
            Self::D2d => Some(Backend::D2d),
            Self::Kernel => Some(Backend::Kernel),
        }
    }
}

impl From<Backend> for Choice {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Host => Self::Host,
            Backend::D2d => Self::D2d,
            Backend::Kernel => Self::Kernel,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.backend().map_or("auto", Backend::name))
    }
}

impl FromStr for Choice {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse::<Backend>()
            .map(Self::from)
            .map_err(|unknown| UnknownChoice { expected: "auto, host, d2d or kernel", ..unknown })
    }
}

/// A text that names no backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown unpack implementation {text:?}: expected {expected}")]
pub struct UnknownChoice {
    text: String,
    expected: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for choice in [Choice::Auto, Choice::Host, Choice::D2d, Choice::Kernel] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for backend in [Backend::Host, Backend::D2d, Backend::Kernel] {
            assert_eq!(backend.to_string().parse(), Ok(backend));
            assert_eq!(Choice::from(backend).backend(), Some(backend));
        }
    }

    #[test]
    fn an_unknown_name_gives_the_expected_ones() {
        let unknown = "gpu".parse::<Choice>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown unpack implementation \"gpu\": expected auto, host, d2d or kernel"
        );
        assert!("auto".parse::<Backend>().is_err());
        assert!("Kernel".parse::<Choice>().is_err());
        assert!("".parse::<Choice>().is_err());
    }
}
