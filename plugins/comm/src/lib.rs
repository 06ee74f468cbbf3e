//! Code that the comms of tcpx's own plugins share.
//!
//! - [`wire`]: the protocol on the sockets of a comm. Pure
//! - [`SendsUnderWay`]: the zero-copy sends that are over. Pure
//! - [`allow_sends_in_place`], [`next_ended`]: the system's notifications of their ends
//! - [`poll`]: waiting for sockets. [`reset()`]: ending a connection at once
//!
//! docs/devmem.md lists what this crate will contain later, and in which order.

mod error_queue;
pub mod poll;
mod reset;
mod sends_under_way;
pub mod wire;

pub use error_queue::{EndedSends, allow_sends_in_place, next_ended};
pub use reset::reset;
pub use sends_under_way::SendsUnderWay;
