//! What a check and its agent say to each other.
//!
//! - `command`: the table of all commands; `values`: what they take and give;
//! - `socket`: how they travel.

pub(crate) mod command;
pub(crate) mod socket;
pub(crate) mod values;
