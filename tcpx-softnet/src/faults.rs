//! What goes wrong, or is inconvenient, on request: for testing consumers.
//!
//! - `fault`: faults and their script
//! - `shape`: legal but inconvenient behaviour
//! - `disturbance`: what both do to one socket
//! - `shaper`: gives shaped messages their pages
//! - `plan`: how a shaped message is cut into fragments
//! - `dice`: random numbers that a seed repeats
//! - `reset`: ending a connection as the death of its process does

mod dice;
mod disturbance;
mod fault;
mod plan;
mod reset;
mod shape;
mod shaper;

pub(crate) use disturbance::{Disturbance, Permit};
pub(crate) use fault::{
    ALLOWED as ALLOWED_FAULTS, CallCounter, Killer, ScriptedCall, leak_period, lost_message,
};
pub use fault::{CutSocket, Entry, Fault, Side};
pub(crate) use reset::reset;
pub(crate) use shape::ALLOWED as ALLOWED_SHAPES;
pub use shape::Shape;
pub(crate) use shaper::Shaper;
