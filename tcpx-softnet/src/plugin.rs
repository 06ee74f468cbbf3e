//! The plugin itself: its table, settings and process-wide state.
//!
//! - `table`: the v7 table and its `extern "C"` entries
//! - `entries`: what each entry does
//! - `registry`: ids for what callers hold
//! - `runtime`: what `init` makes
//! - `nic`: the network interfaces on offer
//! - `settings`: what can be set
//! - `settings_error`: why it is refused
//! - `variables`: environment variables as typed values

mod entries;
mod nic;
mod registry;
mod runtime;
mod settings;
mod settings_error;
mod table;
mod variables;

pub use runtime::{bounce_bytes, configure, pool_stats};
pub use settings::{Helpers, Settings};
pub use settings_error::SettingsError;
pub use table::table;
