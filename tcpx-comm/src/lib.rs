//! What the comms of tcpx's own plugins have in common.
//!
//! - [`SendsUnderWay`]: which calls that sent in place are over. Pure
//! - [`allow_sends_in_place`], [`next_ended`]: where the system tells of their ends
//!
//! docs/devmem.md says what else is to come here, and in which order.

mod error_queue;
mod sends_under_way;

pub use error_queue::{EndedSends, allow_sends_in_place, next_ended};
pub use sends_under_way::SendsUnderWay;
