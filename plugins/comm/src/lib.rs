//! What the comms of tcpx's own plugins have in common.
//!
//! - [`wire`]: what travels on the sockets of a comm. Pure
//! - [`SendsUnderWay`]: which calls that sent in place are over. Pure
//! - [`allow_sends_in_place`], [`next_ended`]: where the system tells of their ends
//! - [`poll`]: waiting for sockets. [`reset()`]: ending a connection at once
//!
//! docs/devmem.md says what else is to come here, and in which order.

mod error_queue;
pub mod poll;
mod reset;
mod sends_under_way;
pub mod wire;

pub use error_queue::{EndedSends, allow_sends_in_place, next_ended};
pub use reset::reset;
pub use sends_under_way::SendsUnderWay;
