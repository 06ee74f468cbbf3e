//! Set of environment variables.

use std::collections::BTreeMap;

/// Environment variables by name.
pub type Env = BTreeMap<String, String>;

/// Returns this process's environment. Variables whose name or value is not UTF-8 are left out:
/// none of the plugin's is.
#[must_use]
pub fn process_env() -> Env {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns the value of `name`. An empty value counts as unset, as it does for the plugin.
#[must_use]
pub fn value<'a>(env: &'a Env, name: &str) -> Option<&'a str> {
    env.get(name).map(String::as_str).filter(|value| !value.is_empty())
}
