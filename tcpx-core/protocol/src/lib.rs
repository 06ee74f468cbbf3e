//! Protocol of two sessions: frames, matching, scheduling, exports.
//!
//! A driver owns sockets, clock, plugin and memory. The driver hands in the time and what arrived,
//! and carries out the [`Action`](peer::action::Action)s that come back. So two ends can be run
//! against each other in one thread, in any order, without a network.
//!
//! - [`types`]: keys, kinds and limits.
//! - [`error`]: errors that programs see.
//! - [`stats`]: counters of what peers do.
//! - [`exports`]: memory that other sessions may reach, and the keys that let them.
//! - [`frames`]: the bytes of a control link.
//! - [`plans`]: plans of bytes that travel together.
//! - [`peer`]: one peer, from the moment when its link has proven itself.
//!
//! This crate is a part of `tcpx-core`, whose users need nothing of it; no version promises another
//! anything.

pub mod error;
pub mod exports;
pub mod frames;
pub mod peer;
pub mod plans;
pub mod stats;
pub mod types;
