//! The control link: one TCP connection beside the comms of a peer.
//!
//! - [`acknowledgement`]: does the peer's host still acknowledge what is sent to it.
//! - [`frame`]: what travels on it, as bytes.
//! - [`hello`]: who is at the other end, and do the two fit together.
//! - [`socket`]: the bytes themselves, never blocking.

pub(crate) mod acknowledgement;
pub(crate) mod frame;
pub(crate) mod hello;
pub(crate) mod socket;

#[cfg(all(test, feature = "soft"))]
mod refusal_tests;
