//! Code that the comms of tcpx's own plugins share.
//!
//! - [`wire`]: the protocol on the sockets of a comm. Pure
//! - [`OutstandingSends`]: the zero-copy sends that are over. Pure
//! - [`enable_zerocopy`], [`next_completed`]: the system's notifications of their ends
//! - [`poll`]: waiting for sockets. [`reset()`]: ending a connection at once
//!
//! docs/devmem.md lists what this crate will contain later, and in which order.

mod error_queue;
mod outstanding_sends;
pub mod poll;
mod reset;
pub mod wire;

pub use error_queue::{CompletedSends, enable_zerocopy, next_completed};
pub use outstanding_sends::OutstandingSends;
pub use reset::reset;
