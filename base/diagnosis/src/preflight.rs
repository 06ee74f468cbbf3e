//! Checks before the plugin is loaded: everything whose failure would make it exit, crash, hang or
//! refuse to start.
//!
//! - `plugin_file`: the plugin's file, read without loading it.
//! - `cuda`: the NVIDIA driver and its GPUs.
//! - `nic_hazards`: the NICs that the plugin takes for data.
//! - `rxdm`: the daemon's sockets. `rxdm_request`: the one request that is made there.
//! - `hardware`: these together, with the kernel's dialect and the environment's values.
//! - `decision`: the decision whether the plugin may be loaded.

mod cuda;
mod decision;
mod hardware;
mod nic_hazards;
mod plugin_file;
mod rxdm;
mod rxdm_request;

pub use decision::preflight;
pub use hardware::{Hardware, check_rxdm, nics_of};
pub use nic_hazards::data_nics;
pub use plugin_file::{PluginKind, check_plugin_file};
