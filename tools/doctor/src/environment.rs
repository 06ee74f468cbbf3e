//! The environment of the plugin, for `tcpx env`.
//!
//! - `lint`: what is wrong with it, unknown names among that. `library_lint`: with this library's
//!   own variables.
//! - `inspect`: each variable with its value and state.
//! - `nccl_version`: which NCCL a program would load.

mod inspect;
mod library_lint;
mod lint;
mod nccl_version;

pub use inspect::{EnvLine, EnvState, inspect};
pub(crate) use lint::own;
pub use lint::{lint, nearest_name};
pub use nccl_version::nccl_version;
