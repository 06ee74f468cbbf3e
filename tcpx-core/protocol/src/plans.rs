//! Plans of bytes that travel together, and their cutting into chunks.
//!
//! - [`channel_set`]: channels that chunks are dealt to.
//! - [`plan`]: bytes that travel together, and their cutting into chunks and scheduling to
//!   channels. [`stripe_queue`]: the chunks of one lane.
//! - [`pieces`]: places of the bytes of a list. [`piece_cursor`]: their cutting into plans, and the
//!   choice of those worth copying together. [`piece_range`]: some of them, to be copied.

pub mod channel_set;
pub mod piece_cursor;
pub mod piece_range;
pub mod pieces;
pub mod plan;
pub mod stripe_queue;
