//! The environment of the plugin, for `tcpx env`.
//!
//! - `lint`: what is wrong with it, unknown names among that. `library_lint`: with this library's
//!   own variables.
//! - `inspect`: each variable with its value and state.

mod inspect;
mod library_lint;
mod lint;

pub use inspect::{EnvLine, EnvState, inspect};
pub(crate) use lint::own;
pub use lint::{lint, nearest_name};
