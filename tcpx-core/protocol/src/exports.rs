//! Memory that other sessions may reach, and the keys that let them. Pure: no peer and no plugin.
//!
//! - [`remote_key`]: the key, and its bytes; a range at the other end, as an operation names it.
//! - [`capability`]: what in it opens, as lists name it, and keys that are the same each time.
//! - [`table`]: what is exported, what peers do with it, and what is not exported any more.
//!   [`exported_range`]: a range of it, and what the requests of a list use together.
//! - [`refusal`]: why a request is refused, as it travels.

pub mod capability;
pub mod exported_range;
pub mod refusal;
pub mod remote_key;
pub mod table;
