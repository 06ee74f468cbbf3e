//! What goes wrong, or is inconvenient, on request: for testing consumers.
//!
//! - `fault`: faults, and how they are spelled
//! - `shape`: legal but inconvenient behaviour
//! - `script`: both together, as settings have them
//! - `calls`: what a script does to calls of the table's entries
//! - `comm_faults`: what it does to a whole comm
//! - `socket_faults`: what it does to one socket
//! - `shaper`: gives messages their pages, in the way that the shape asks for
//! - `fragment_plan`: how a shaped message is cut into fragments. Pure
//! - `rng`: random numbers that the same seed repeats
//!
//! Without the feature `faults`, `no_faults.rs` takes the place of this module.

mod calls;
mod comm_faults;
mod fault;
mod fragment_plan;
mod rng;
mod script;
mod shape;
mod shaper;
mod socket_faults;

pub(crate) use calls::{CallCounter, ScriptedCall};
pub(crate) use comm_faults::CommFaults;
pub use fault::Fault;
pub use script::FaultScript;
pub use shape::Shape;
pub(crate) use shaper::Shaper;
pub(crate) use socket_faults::SocketFaults;
