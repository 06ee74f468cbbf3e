//! Settings that are more than a number: credit, copy threads, link traffic, plugins, and the
//! options of an export.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tcpx_protocol::types::memory::RemoteAccess;

use crate::types::MAX_COPY_THREADS;

/// Choice of when a session limits by credit what its peers may have in the bounce buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BounceCreditChoice {
    /// With the hardware plugin. The software plugin gives each request all of its pages at once,
    /// so it needs no credit.
    #[default]
    Auto,
    /// With any plugin.
    On,
    /// Never.
    Off,
}

const CHOICE_NAMES: [(&str, BounceCreditChoice); 3] = [
    ("auto", BounceCreditChoice::Auto),
    ("on", BounceCreditChoice::On),
    ("off", BounceCreditChoice::Off),
];

/// Text that is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto, on or off")]
pub struct BounceCreditChoiceError;

impl FromStr for BounceCreditChoice {
    type Err = BounceCreditChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = CHOICE_NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or(BounceCreditChoiceError)
    }
}

impl fmt::Display for BounceCreditChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = CHOICE_NAMES.iter().find(|(_, choice)| choice == self);
        f.write_str(found.map_or("auto", |(name, _)| name))
    }
}

/// Number of copying threads for each eight processors. With both ends on 16 processors, six
/// threads were faster than four or eight.
const THREADS_PER_EIGHT: usize = 3;
/// Number of processors from which threads copy. On fewer processors, the threads that receive and
/// send need all.
const MIN_PROCESSORS_TO_COPY: usize = 8;
/// Largest number of copying threads. More would wait for the memory.
const MAX_AUTO_THREADS: usize = 8;

/// Number of threads of a session that copy received bytes from the bounce buffer to ordinary
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyThreads {
    /// Three for each eight processors that the process may use, at most 8. None on fewer than 8
    /// processors, where the thread that makes progress copies.
    #[default]
    Auto,
    /// At most this many, up to 64; 0: the thread that makes progress copies.
    Count(u16),
}

impl CopyThreads {
    /// Returns the number of threads where the process may use `processors` processors.
    pub(crate) fn count(self, processors: usize) -> usize {
        match self {
            Self::Auto if processors < MIN_PROCESSORS_TO_COPY => 0,
            Self::Auto => (processors * THREADS_PER_EIGHT / 8).min(MAX_AUTO_THREADS),
            Self::Count(count) => count.into(),
        }
    }
}

/// Text that is no number of threads.
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

/// Number of processors from which several connections are faster than one. On fewer processors,
/// threads that help a channel have no processor of their own.
const MIN_PROCESSORS_FOR_CHANNELS: usize = 5;
/// Longest read or write on the link where channels are faster. One of this length takes about as
/// long as its request.
const SHORT_OPERATION_BYTES: u64 = 256 << 10;

/// Longest read or write of a peer's memory that travels on the control link, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkBytes {
    /// 256 KiB, or any number on fewer than 5 processors with the software plugin.
    #[default]
    Auto,
    /// This number of bytes; 0: only reads and writes as short as an eager message.
    Most(u64),
}

impl LinkBytes {
    /// Returns the choice over this plugin. Channels of the hardware plugin are faster than the
    /// link, however few processors there are.
    pub(crate) fn for_plugin(self, is_hardware: bool) -> Self {
        match self {
            Self::Auto if is_hardware => Self::Most(SHORT_OPERATION_BYTES),
            chosen => chosen,
        }
    }

    /// Returns the number of bytes where the process may use `processors` processors.
    pub(crate) fn bytes(self, processors: usize) -> u64 {
        match self {
            Self::Auto if processors < MIN_PROCESSORS_FOR_CHANNELS => u64::MAX,
            Self::Auto => SHORT_OPERATION_BYTES,
            Self::Most(bytes) => bytes,
        }
    }
}

/// Text that is no number of bytes.
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

/// Path at which the hardware plugin is installed on A3 hosts.
pub const HARDWARE_PLUGIN_PATH: &str = "/usr/local/tcpx/lib64/libnccl-net-tcpx.so";

/// Plugin that moves the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginChoice {
    /// The hardware plugin where it is installed, else the software plugin. The software plugin
    /// moves memory of GPUs by the kernel's device-memory TCP, over NICs that can (docs/devmem.md).
    #[default]
    Auto,
    /// The software plugin that is linked in.
    Soft,
    /// The linked-in software plugin over the kernel's device-memory TCP (docs/devmem.md).
    Devmem,
    /// A plugin file.
    Path(PathBuf),
}

impl PluginChoice {
    /// Returns the plugin of the choice on this machine: the software plugin or a file.
    /// [`PluginChoice::Auto`] takes the hardware plugin where [`HARDWARE_PLUGIN_PATH`] exists, and
    /// never falls back from a plugin that fails.
    #[must_use]
    pub fn resolve(&self) -> Self {
        self.resolve_with(|| Path::new(HARDWARE_PLUGIN_PATH).exists())
    }

    /// Returns whether this is the software plugin, with any carrier of its payload.
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

/// Range and access that [`Session::export`](crate::Session::export) gives peers of a registration.
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
    /// Access of the peers.
    pub access: RemoteAccess,
    /// Offset of the range in the registration, in bytes.
    pub offset: u64,
    /// Length of the range in bytes; `None`: to the end of the registration.
    pub bytes: Option<u64>,
    /// Whether every export of this range of addresses with this access returns the same key.
    pub is_stable: bool,
}

impl ExportOptions {
    /// Exports the whole registration, by a key that is never used again.
    #[must_use]
    pub fn new(access: RemoteAccess) -> Self {
        Self { access, offset: 0, bytes: None, is_stable: false }
    }

    /// Selects a range of the registration.
    #[must_use]
    pub fn range(self, offset: u64, bytes: u64) -> Self {
        Self { offset, bytes: Some(bytes), ..self }
    }

    /// Sets whether every export of the same range of addresses with the same access returns the
    /// same key, to the byte. A key that was handed out then opens the range whenever it is
    /// exported, also through another registration of it. A range that was exported twice must be
    /// taken back twice. Meant for programs that tell their peers only once what they have.
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
        let of_hardware =
            [1, 208].map(|processors| LinkBytes::Auto.for_plugin(true).bytes(processors));
        assert_eq!(of_hardware, [256 << 10; 2], "nothing long goes past the hardware");
        assert_eq!(LinkBytes::Auto.for_plugin(false), LinkBytes::Auto);
        assert_eq!(LinkBytes::Most(u64::MAX).for_plugin(true), LinkBytes::Most(u64::MAX));
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
