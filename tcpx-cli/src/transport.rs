//! Which plugin would serve on this machine, and why.

use std::path::Path;

use serde::{Serialize, Serializer};
use tcpx_core::{HARDWARE_PLUGIN_PATH, PluginChoice};

use crate::failure::Failure;
use crate::variables;

/// The variables that stand in for `--plugin`, as in `tcpx-core`'s table of settings.
const VARIABLES: [&str; 2] = ["TCPX_PLUGIN", "UCCL_TCPX_PLUGIN_PATH"];

/// The plugin that a session made here would use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Transport {
    /// `soft` or a path, `auto` no more.
    #[serde(serialize_with = "as_text")]
    pub(crate) plugin: PluginChoice,
    /// Why this one.
    pub(crate) why: String,
}

impl Transport {
    /// Flag over environment over `auto`.
    pub(crate) fn of(flag: Option<&PluginChoice>) -> Result<Self, Failure> {
        let choice = match flag {
            Some(choice) => choice.clone(),
            None => variables::read(&VARIABLES)?.unwrap_or_default(),
        };
        let hardware = Path::new(HARDWARE_PLUGIN_PATH);
        Ok(Self::decide(choice, hardware, hardware.exists()))
    }

    /// The plugin's file; `None` for the software plugin that is linked in.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.plugin {
            PluginChoice::Path(path) => Some(path),
            PluginChoice::Auto | PluginChoice::Soft => None,
        }
    }

    /// The rule of `tcpx-core`: `auto` takes the hardware plugin where it is installed and never falls back from it.
    fn decide(choice: PluginChoice, hardware: &Path, is_installed: bool) -> Self {
        let shown = hardware.display();
        let (plugin, why) = match choice {
            PluginChoice::Auto if is_installed => (
                PluginChoice::Path(hardware.to_owned()),
                format!("auto: the hardware plugin is installed at {shown}"),
            ),
            PluginChoice::Auto => {
                (PluginChoice::Soft, format!("auto: no hardware plugin is installed at {shown}"))
            }
            named => (named, "it was asked for".to_owned()),
        };
        Self { plugin, why }
    }
}

fn as_text<S: Serializer>(plugin: &PluginChoice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(choice: PluginChoice, is_installed: bool) -> Transport {
        Transport::decide(choice, Path::new("/opt/plugin.so"), is_installed)
    }

    #[test]
    fn auto_takes_the_installed_hardware_plugin_and_says_why() {
        let installed = decide(PluginChoice::Auto, true);
        assert_eq!(installed.path(), Some(Path::new("/opt/plugin.so")));
        assert!(installed.why.contains("is installed at /opt/plugin.so"), "{installed:?}");
        let missing = decide(PluginChoice::Auto, false);
        assert_eq!((missing.path(), &missing.plugin), (None, &PluginChoice::Soft));
        assert!(missing.why.contains("no hardware plugin"), "{missing:?}");
    }

    #[test]
    fn a_named_plugin_is_taken_whatever_is_installed() {
        assert_eq!(decide(PluginChoice::Soft, true).path(), None);
        let named = decide(PluginChoice::Path("/x.so".into()), true);
        assert_eq!(named.path(), Some(Path::new("/x.so")));
    }
}
