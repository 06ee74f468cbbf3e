//! What a command writes: results on stdout, everything else on stderr.
//!
//! - `stdout`: texts and JSON objects
//! - `logging`: the log

pub(crate) mod logging;
mod stdout;

pub(crate) use stdout::{print, print_json};
