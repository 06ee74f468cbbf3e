//! Memory that other sessions may reach, and the keys that let them. Pure: no peer and no plugin.
//!
//! - [`remote_key`]: the key, and its bytes; a range at the other end, as an operation names it.
//! - [`capability`]: the part of a key that opens, as lists name it, and keys that are the same
//!   each time.
//! - [`table`]: exports, present and past, and the uses that peers make of them.
//!   [`exported_range`]: a range of an export, and the exports that the requests of a list use
//!   together.
//! - [`refusal`]: the reason why a request is refused, as it travels.

pub mod capability;
pub mod exported_range;
pub mod refusal;
pub mod remote_key;
pub mod table;
