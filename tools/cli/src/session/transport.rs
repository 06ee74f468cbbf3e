//! Choice of the plugin on this machine, with its reason.

use std::path::Path;

use serde::{Serialize, Serializer};
use tcpx_core::{HARDWARE_PLUGIN_PATH, PluginChoice};

use crate::failure::Failure;
use crate::input::variables;

/// Variables that stand in for `--plugin`, as in `tcpx-core`'s table of settings.
const VARIABLES: [&str; 2] = ["TCPX_PLUGIN", "UCCL_TCPX_PLUGIN_PATH"];

/// Plugin that a session made here would use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Transport {
    /// `soft`, `devmem` or a path, but not `auto`.
    #[serde(serialize_with = "as_text")]
    pub(crate) plugin: PluginChoice,
    /// Reason for the choice.
    pub(crate) why: String,
    /// Whether `auto` chose the software plugin, which then chooses for memory of GPUs.
    #[serde(skip)]
    pub(crate) is_left_open: bool,
}

impl Transport {
    /// Chooses by flag, then environment, then `auto`.
    pub(crate) fn of(flag: Option<&PluginChoice>) -> Result<Self, Failure> {
        let choice = match flag {
            Some(choice) => choice.clone(),
            None => variables::read(&VARIABLES)?.unwrap_or_default(),
        };
        let plugin = choice.resolve();
        let why = why(&choice, &plugin);
        let is_left_open = (&choice, &plugin) == (&PluginChoice::Auto, &PluginChoice::Soft);
        Ok(Self { plugin, why, is_left_open })
    }

    /// Returns the plugin's file; `None` for the plugin that is linked in.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.plugin {
            PluginChoice::Path(path) => Some(path),
            _ => None,
        }
    }
}

/// Returns the reason for the choice of a plugin.
fn why(choice: &PluginChoice, plugin: &PluginChoice) -> String {
    match (choice, plugin) {
        (PluginChoice::Auto, PluginChoice::Path(path)) => {
            format!("auto: the hardware plugin is installed at {}", path.display())
        }
        (PluginChoice::Auto, _) => {
            format!("auto: no hardware plugin is installed at {HARDWARE_PLUGIN_PATH}")
        }
        _ => "named by flag or variable".to_owned(),
    }
}

fn as_text<S: Serializer>(plugin: &PluginChoice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_what_auto_found_or_that_the_user_chose() {
        let hardware = PluginChoice::Path("/opt/plugin.so".into());
        let installed = why(&PluginChoice::Auto, &hardware);
        assert_eq!(installed, "auto: the hardware plugin is installed at /opt/plugin.so");
        let missing = why(&PluginChoice::Auto, &PluginChoice::Soft);
        assert!(missing.contains("no hardware plugin is installed at /"), "{missing}");
        assert_eq!(why(&hardware, &hardware), "named by flag or variable");
    }

    #[test]
    fn only_a_plugin_file_has_a_path() {
        let path = |plugin| {
            Transport { plugin, why: String::new(), is_left_open: false }.path().map(Path::to_owned)
        };
        assert_eq!(path(PluginChoice::Soft), None);
        assert_eq!(path(PluginChoice::Path("/x.so".into())), Some("/x.so".into()));
    }
}
