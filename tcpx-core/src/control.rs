//! The control link: how two sessions find each other and talk beside the comms.

pub(crate) mod acknowledgement;
pub(crate) mod conn_info;
pub(crate) mod connector;
pub(crate) mod delivery;
pub(crate) mod frame;
pub(crate) mod handshake_frame;
pub(crate) mod hello;
pub(crate) mod identity;
pub(crate) mod incoming;
pub(crate) mod link_frame;
pub(crate) mod listener;
#[cfg(test)]
mod refusal_tests;
pub(crate) mod socket;
