//! The environment of the plugin, for `tcpx env`.
//!
//! - `lint`: what is wrong with it, unknown names among that.
//! - `inspect`: each variable with its value and state.

mod inspect;
mod lint;

pub use inspect::{EnvLine, EnvState, inspect};
pub(crate) use lint::unknown_names;
pub use lint::{lint, nearest_name};
