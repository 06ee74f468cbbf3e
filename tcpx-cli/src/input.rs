//! What the user gives a command.
//!
//! - `byte_size`: numbers of bytes as people write them
//! - `variables`: environment variables that stand in for flags

mod byte_size;
pub(crate) mod variables;

pub(crate) use byte_size::ByteSize;
