//! Plans: which bytes travel together, and how they are cut into chunks.
//!
//! - [`plan`]: what travels together, and how it is cut into chunks and dealt to channels.
//!   [`stripe_queue`]: the chunks of one lane.
//! - [`pieces`]: where the bytes of a list lie. [`piece_cursor`]: how they are cut into plans, and
//!   which of them are worth copying together. [`stretch`]: some of them, to be copied.

pub mod piece_cursor;
pub mod pieces;
pub mod plan;
pub mod stretch;
pub mod stripe_queue;
