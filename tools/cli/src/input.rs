//! Input of a command from its user.
//!
//! - `byte_size`: numbers of bytes as people write them
//! - `seconds`: numbers of seconds
//! - `plugin_name`: names of plugins
//! - `variables`: environment variables that stand in for flags

mod byte_size;
mod plugin_name;
mod seconds;
pub(crate) mod variables;

pub(crate) use byte_size::ByteSize;
pub(crate) use plugin_name::plugin_name;
pub(crate) use seconds::Seconds;
