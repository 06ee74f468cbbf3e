//! Baseline: plain sockets, as a good program uses them on the same machines without the library.
//!
//! The sockets block. Round trips use one. Streams use as many as the session has, each with a
//! thread.
//!
//! - `socket`: one of them
//! - `opening`: opens them at both ends
//! - `sockets`: all of them, each with its part of a message

mod opening;
mod socket;
mod sockets;

pub(super) use socket::PlainSocket;
pub(super) use sockets::PlainSockets;
