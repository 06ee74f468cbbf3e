//! The environment of the plugin: its variables, what a process has set, and what is wrong with it.

mod bindings;
mod conflicts;
mod inspect;
mod interfaces;
mod lint;
mod number;
mod profile;
mod remark;
mod variable;

use std::collections::BTreeMap;

pub use inspect::{EnvLine, EnvState, inspect};
pub use interfaces::select_interfaces;
pub use lint::lint;
pub use profile::{Setting, compare_with_profile, profile_a3_high, render_profile};
pub use variable::{Effect, Kind, Variable, variables};

/// Environment variables by name.
pub type Env = BTreeMap<String, String>;

/// This process's environment. Variables whose name or value is not UTF-8 are left out: none of the plugin's is.
#[must_use]
pub fn process_env() -> Env {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The value of `name`; an empty one counts as unset, as it does for the plugin.
pub(crate) fn value<'a>(env: &'a Env, name: &str) -> Option<&'a str> {
    env.get(name).map(String::as_str).filter(|value| !value.is_empty())
}
