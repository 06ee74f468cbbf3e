//! Settings that are more than a number: credit, threads that copy, what the link carries, plugins,
//! and what an export is for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tcpx_protocol::types::memory::RemoteAccess;

use crate::types::MAX_COPY_THREADS;

/// When a session counts what its peers may have in the bounce buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BounceCreditChoice {
    /// With the hardware plugin. The software plugin gives each request all of its pages at once,
    /// so it needs none.
    #[default]
    Auto,
    /// With any plugin.
    On,
    /// Never.
    Off,
}

const NAMES: [(&str, BounceCreditChoice); 3] = [
    ("auto", BounceCreditChoice::Auto),
    ("on", BounceCreditChoice::On),
    ("off", BounceCreditChoice::Off),
];

/// A text that is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto, on or off")]
pub struct BounceCreditChoiceError;

impl FromStr for BounceCreditChoice {
    type Err = BounceCreditChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or(BounceCreditChoiceError)
    }
}

impl fmt::Display for BounceCreditChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, choice)| choice == self);
        f.write_str(found.map_or("auto", |(name, _)| name))
    }
}

/// So many of eight processors copy. With both ends on 16 processors, six threads were faster than
/// four or eight.
const OF_EIGHT: usize = 3;
/// On fewer processors, those who receive and send need all.
const COPIERS_FROM: usize = 8;
/// More wait for the memory.
const ENOUGH: usize = 8;

/// How many threads of a session copy received bytes from the bounce buffer to ordinary memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyThreads {
    /// Three for each eight processors that the process may use, at most 8; none on fewer than 8
    /// processors, where the thread that makes progress copies.
    #[default]
    Auto,
    /// So many at most, up to 64; 0: the thread that makes progress copies.
    Count(u16),
}

impl CopyThreads {
    /// The number of threads where the process may use so many processors.
    pub(crate) fn count(self, processors: usize) -> usize {
        match self {
            Self::Auto if processors < COPIERS_FROM => 0,
            Self::Auto => (processors * OF_EIGHT / 8).min(ENOUGH),
            Self::Count(count) => count.into(),
        }
    }
}

/// A text that is no number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto or 0 to {MAX_COPY_THREADS}")]
pub struct CopyThreadsError;

impl FromStr for CopyThreads {
    type Err = CopyThreadsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Count).map_err(|_| CopyThreadsError),
        }
    }
}

impl fmt::Display for CopyThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// On fewer processors one connection moves as much as several: threads that help a channel have no
/// processor of their own there.
const HELPERS_FROM: usize = 5;
/// Where channels move more, a read or write of so many bytes takes about as long as to ask for it.
const SHORT_BYTES: u64 = 256 << 10;

/// Longest read or write of a peer's memory that travels on the control link, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkBytes {
    /// 256 KiB, or any number on fewer than 5 processors with the software plugin.
    #[default]
    Auto,
    /// So many; 0: none but what is as short as a message that travels there.
    Most(u64),
}

impl LinkBytes {
    /// The same over this plugin. Channels of the hardware move more than the link, however few
    /// processors there are.
    pub(crate) fn over(self, is_hardware: bool) -> Self {
        match self {
            Self::Auto if is_hardware => Self::Most(SHORT_BYTES),
            chosen => chosen,
        }
    }

    /// The number where the process may use so many processors.
    pub(crate) fn bytes(self, processors: usize) -> u64 {
        match self {
            Self::Auto if processors < HELPERS_FROM => u64::MAX,
            Self::Auto => SHORT_BYTES,
            Self::Most(bytes) => bytes,
        }
    }
}

/// A text that is no number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto or a number of bytes")]
pub struct LinkBytesError;

impl FromStr for LinkBytes {
    type Err = LinkBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Most).map_err(|_| LinkBytesError),
        }
    }
}

impl fmt::Display for LinkBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Most(bytes) => bytes.fmt(f),
        }
    }
}

/// Where the hardware plugin is installed on A3 hosts.
pub const HARDWARE_PLUGIN_PATH: &str = "/usr/local/tcpx/lib64/libnccl-net-tcpx.so";

/// Which plugin moves the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginChoice {
    /// The hardware plugin where it is installed, else the software plugin. That moves memory of
    /// GPUs by the kernel's device-memory TCP, over NICs that can (docs/devmem.md).
    #[default]
    Auto,
    /// The software plugin that is linked in.
    Soft,
    /// The same over the kernel's device-memory TCP (docs/devmem.md).
    Devmem,
    /// A plugin file.
    Path(PathBuf),
}

impl PluginChoice {
    /// What the choice means on this machine: the software plugin or a file. [`PluginChoice::Auto`]
    /// takes the hardware plugin where [`HARDWARE_PLUGIN_PATH`] exists, and never falls back from
    /// one that fails.
    #[must_use]
    pub fn resolve(&self) -> Self {
        self.resolve_with(|| Path::new(HARDWARE_PLUGIN_PATH).exists())
    }

    /// Whether that is the software plugin, over whatever carries its payload.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self, Self::Soft | Self::Devmem)
    }

    fn resolve_with(&self, is_installed: impl FnOnce() -> bool) -> Self {
        match self {
            Self::Auto if is_installed() => Self::Path(HARDWARE_PLUGIN_PATH.into()),
            Self::Auto => Self::Soft,
            named => named.clone(),
        }
    }
}

impl FromStr for PluginChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "soft" => Self::Soft,
            "devmem" => Self::Devmem,
            path => Self::Path(path.into()),
        })
    }
}

impl fmt::Display for PluginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Soft => f.write_str("soft"),
            Self::Devmem => f.write_str("devmem"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What [`Session::export`](crate::Session::export) lets peers reach of a registration.
///
/// ```
/// use tcpx_core::{ExportOptions, RemoteAccess};
///
/// // The second page, for reading.
/// let options = ExportOptions::new(RemoteAccess::Read).range(4096, 4096);
/// assert_eq!((options.offset, options.bytes, options.is_stable), (4096, Some(4096), false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// What peers may do.
    pub access: RemoteAccess,
    /// Where in the registration the range begins, in bytes.
    pub offset: u64,
    /// How long it is; `None`: to the end of the registration.
    pub bytes: Option<u64>,
    /// Whether the key is the same each time that this range of addresses is exported with this
    /// access.
    pub is_stable: bool,
}

impl ExportOptions {
    /// The whole registration, by a key that is never used again.
    #[must_use]
    pub fn new(access: RemoteAccess) -> Self {
        Self { access, offset: 0, bytes: None, is_stable: false }
    }

    /// A range of the registration.
    #[must_use]
    pub fn range(self, offset: u64, bytes: u64) -> Self {
        Self { offset, bytes: Some(bytes), ..self }
    }

    /// Whether the session gives the same key, to the byte, each time that the same range of
    /// addresses is exported with the same access. A key that was handed out then opens the range
    /// whenever it is exported, also through another registration of it. Exported twice, it is to
    /// be taken back twice. Meant for whoever tells its peers only once what it has.
    #[must_use]
    pub fn stable(self, is_stable: bool) -> Self {
        Self { is_stable, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processors_have_no_copy_threads_unless_they_are_asked_for() {
        let counts =
            [1, 2, 7, 8, 16, 32, 256].map(|processors| CopyThreads::Auto.count(processors));
        assert_eq!(counts, [0, 0, 0, 3, 6, 8, 8]);
        assert_eq!([1, 256].map(|processors| CopyThreads::Count(3).count(processors)), [3, 3]);
        assert_eq!(CopyThreads::Count(0).count(256), 0);
    }

    #[test]
    fn few_processors_have_no_limit_unless_they_are_given_one() {
        let auto = [1, 4, 5, 208].map(|processors| LinkBytes::Auto.bytes(processors));
        assert_eq!(auto, [u64::MAX, u64::MAX, 256 << 10, 256 << 10]);
        assert_eq!([2, 208].map(|processors| LinkBytes::Most(7).bytes(processors)), [7, 7]);
        let of_hardware = [1, 208].map(|processors| LinkBytes::Auto.over(true).bytes(processors));
        assert_eq!(of_hardware, [256 << 10; 2], "nothing long goes past the hardware");
        assert_eq!(LinkBytes::Auto.over(false), LinkBytes::Auto);
        assert_eq!(LinkBytes::Most(u64::MAX).over(true), LinkBytes::Most(u64::MAX));
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for choice in [LinkBytes::Auto, LinkBytes::Most(0), LinkBytes::Most(u64::MAX)] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for text in ["", "-1", "many", "1.5", "18446744073709551616"] {
            assert_eq!(text.parse::<LinkBytes>(), Err(LinkBytesError), "{text}");
        }
    }

    #[test]
    fn auto_takes_the_hardware_plugin_where_it_is_installed_and_a_name_is_taken_as_it_is() {
        let hardware = PluginChoice::Path(HARDWARE_PLUGIN_PATH.into());
        assert_eq!(PluginChoice::Auto.resolve_with(|| true), hardware);
        assert_eq!(PluginChoice::Auto.resolve_with(|| false), PluginChoice::Soft);
        for named in [PluginChoice::Soft, PluginChoice::Path("/x.so".into())] {
            assert_eq!(named.resolve_with(|| true), named);
        }
    }
}
