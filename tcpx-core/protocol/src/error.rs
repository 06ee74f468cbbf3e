//! Errors that name what the other end said, or what a program gave.
//!
//! - [`conn_info`]: why connection info cannot be used.
//! - [`remote_key`]: why bytes are no key to remote memory.
//! - [`remote_problem`]: why a range at the other end cannot be used.

pub mod conn_info;
pub mod remote_key;
pub mod remote_problem;
