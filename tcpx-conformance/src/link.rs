//! What a check and its agent say to each other.
//!
//! - `command`: the questions and the answers;
//! - `socket`: how they travel.

pub(crate) mod command;
pub(crate) mod socket;
