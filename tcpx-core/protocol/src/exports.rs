//! Memory that other sessions may reach, and the keys that let them. Pure: no peer and no plugin.
//!
//! - [`remote_key`]: the key, and its bytes. [`export_id`], [`export_secret`]: what in it opens.
//! - [`stable_keys`]: keys that are the same each time.
//! - [`table`]: what is exported, what uses it, and what is not exported any more.
//!   [`exported_range`]: a range of it.
//! - `serving`: what peers do with it. [`joint_uses`]: what the requests of a list use together.
//! - [`refusal`]: why a request is refused, as it travels.
//! - [`remote_range`]: a range at the other end, as an operation names it. [`listed`]: as its list
//!   does.

pub mod export_id;
pub mod export_secret;
pub mod exported_range;
pub mod joint_uses;
pub mod listed;
pub mod refusal;
pub mod remote_key;
pub mod remote_range;
mod serving;
pub mod stable_keys;
pub mod table;
