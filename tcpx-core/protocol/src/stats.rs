//! Counters of what peers do.
//!
//! - [`message`]: of their messages.
//! - [`one_sided`]: of what they do with exported memory, and of notifications.

pub mod message;
pub mod one_sided;
