//! What the same machines do without the library: plain sockets, as many as the session has.
//!
//! - `socket`: one of them, and how it waits
//! - `opening`: how they come to be, at both ends
//! - `sockets`: all of them, each with its part of a message

mod opening;
mod socket;
mod sockets;

pub(super) use socket::PlainSocket;
pub(super) use sockets::PlainSockets;
