//! What a competent program does on the same machines without the library: plain sockets that
//! block, one for round trips, for streams as many as the session has, each with a thread.
//!
//! - `socket`: one of them
//! - `opening`: how they come to be, at both ends
//! - `sockets`: all of them, each with its part of a message

mod opening;
mod socket;
mod sockets;

pub(super) use socket::PlainSocket;
pub(super) use sockets::PlainSockets;
