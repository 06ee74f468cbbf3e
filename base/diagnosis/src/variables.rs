//! Environment variables: what the plugin and this library read, what a process has set, and what
//! is wrong with it.
//!
//! - `env`: a set of variables, and this process's own.
//! - `variable`: the table of all variables that matter, with what the plugin does with each.
//! - `library_setting`: the table of this library's own variables.
//! - `number`, `bindings`, `interfaces`: how the plugin reads numbers, CPU bindings and lists of
//!   interfaces.
//! - `profile`: the values recommended for A3 High hosts.
//! - `remark`: a finding with the variables that it is about.
//! - `values`: rules about one variable. `conflicts`: rules about several, or about a variable and
//!   the machine. `lint`: both together.

mod bindings;
mod conflicts;
mod env;
mod interfaces;
mod library_setting;
mod lint;
mod number;
mod profile;
mod remark;
mod values;
mod variable;

pub use env::{Env, process_env, value};
pub(crate) use interfaces::DATA_INTERFACES;
pub use interfaces::select_interfaces;
pub use library_setting::{LibrarySetting, Reader, find_library_setting, library_settings};
pub use lint::{lint, remarks};
pub use profile::{
    Setting, compare_with_profile, lint_algorithms, profile_a3_high, render_profile,
};
pub use remark::Remark;
pub use variable::{Effect, Kind, Variable, find_variable, variables};
