//! Plans: which bytes travel together, and how they are cut into chunks.
//!
//! - [`plan`]: what travels together. [`stripe`]: a plan, cut into chunks and dealt to channels.
//!   [`stripe_queue`]: those of one lane.
//! - [`pieces`]: where the bytes of a list lie. [`piece_cursor`]: how they are cut into plans.
//!   [`stretch`]: some of them, to be copied.
//! - [`gathering`]: what is worth copying together.

pub mod gathering;
pub mod piece_cursor;
pub mod pieces;
pub mod plan;
pub mod stretch;
pub mod stripe;
pub mod stripe_queue;
