//! Which plugin a session asks for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

#[cfg(test)]
mod tests {
    use super::*;

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
