//! Environment variables of the plugin and of this library, for `tcpx env`.
//!
//! - `lint`: findings about values and unknown names. `library_lint`: findings about this library's
//!   own variables.
//! - `inspect`: each variable with its value and state.
//! - `nccl_version`: version of the NCCL that a program would load.

mod inspect;
mod library_lint;
mod lint;
mod nccl_version;

pub use inspect::{EnvLine, EnvState, inspect};
pub(crate) use lint::library_remarks;
pub use lint::{lint, misspelt_variables, nearest_name};
pub use nccl_version::nccl_version;
