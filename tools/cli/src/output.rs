//! Output of a command: results on stdout, everything else on stderr.
//!
//! - `stdout`: texts and JSON objects
//! - `logging`: the log. `log_file`: the file that takes it, if there is one
//! - `archive`: texts in a gzipped tar file
//! - `progress`: a line with the progress of a command

pub(crate) mod archive;
mod log_file;
pub(crate) mod logging;
mod progress;
mod stdout;

pub(crate) use progress::Progress;
pub(crate) use stdout::{host, json, print, print_json};
