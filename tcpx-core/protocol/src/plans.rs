//! Plans of bytes that travel together, and their cutting into chunks.
//!
//! - [`plan`]: bytes that travel together, and their cutting into chunks and dealing to channels.
//!   [`stripe_queue`]: the chunks of one lane.
//! - [`pieces`]: places of the bytes of a list. [`piece_cursor`]: their cutting into plans, and the
//!   choice of those worth copying together. [`stretch`]: some of them, to be copied.

pub mod piece_cursor;
pub mod pieces;
pub mod plan;
pub mod stretch;
pub mod stripe_queue;
