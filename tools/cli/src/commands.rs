//! The commands, one file each; `tcpx perf` has a room of its own.
//!
//! - `connect`, `transfer`: between two ends
//! - `conformance`: a plugin against the rules
//! - `doctor`, `environment`, `devices`: this machine, as `machine` sees it
//! - `bundle`: all of it in a file, for support
//! - `textfile`: the doctor's findings as metrics
//! - `explain`: the diagnoses
//! - `top`: peers of a running process
//! - `completions`, `manual`: what a shell and `man` know of this command

mod bundle;
mod certificates;
pub(crate) mod completions;
pub(crate) mod conformance;
pub(crate) mod connect;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod environment;
pub(crate) mod explain;
mod machine;
pub(crate) mod manual;
mod textfile;
pub(crate) mod top;
pub(crate) mod transfer;
