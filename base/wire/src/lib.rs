//! The two shapes in which tcpx puts bytes on a socket or hands them around.
//!
//! - [`frame`]: a message in a stream. Its header says how long it is and of what kind.
//! - [`sealed`]: bytes that people copy from host to host, with a name, a version and a digest.
//!
//! Neither knows what the bytes mean, and neither trusts them. Every length is checked before
//! memory is asked for, any bytes at all give a value or an error, and nothing here panics. The
//! crate has no state. It blocks only in [`frame::read`], for as long as its reader does.

#![forbid(unsafe_code)]

pub mod frame;
pub mod sealed;
