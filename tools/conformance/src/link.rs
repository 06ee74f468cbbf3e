//! Link between a check and its agent.
//!
//! - `command`: the table of all commands; `values`: their arguments and replies;
//! - `socket`: their transport.

pub(crate) mod command;
pub(crate) mod socket;
pub(crate) mod values;
