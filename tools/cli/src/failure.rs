//! Failures of a command.
//!
//! - `reason`: everything that ends a command, and its exit status
//! - `connection`: errors of the connection between the two ends
//! - `error_line`: the one line that the user reads, with a pointer to more

mod connection;
mod error_line;
mod reason;

pub(crate) use connection::ConnectionError;
pub(crate) use error_line::{error_line, is_out_of_files};
pub(crate) use reason::{Failure, one_line, usage_line};
