//! What the user gives a command.
//!
//! - `byte_size`: numbers of bytes as people write them
//! - `seconds`: numbers of seconds
//! - `variables`: environment variables that stand in for flags

mod byte_size;
mod seconds;
pub(crate) mod variables;

pub(crate) use byte_size::ByteSize;
pub(crate) use seconds::Seconds;
