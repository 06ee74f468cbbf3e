//! The two formats in which tcpx sends bytes over a socket or hands them around.
//!
//! - [`frame`]: a message in a stream. Its header gives the message's length and kind.
//! - [`sealed`]: bytes that people copy from host to host, with a name, a version and a digest.
//!
//! Neither format knows what the bytes mean, and neither trusts the bytes. Every length is checked
//! before memory is allocated. Any input gives a value or an error, and nothing here panics. The
//! crate has no state. It blocks only in [`frame::read`], for as long as its reader does.

#![forbid(unsafe_code)]

pub mod frame;
pub mod sealed;
