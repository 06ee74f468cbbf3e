//! What goes wrong, or is inconvenient, on request: for testing consumers.
//!
//! - `fault`: faults, and how they are spelled
//! - `shape`: legal but inconvenient behaviour
//! - `script`: both together, as settings have them
//! - `calls`: what a script does to calls of the table's entries
//! - `comm_faults`: what it does to a whole comm
//! - `socket_faults`: what it does to one socket
//! - `shaper`: gives shaped messages their pages
//! - `plan`: how a shaped message is cut into fragments
//! - `dice`: random numbers that a seed repeats
//! - `reset`: ending a connection as the death of its process does

mod calls;
mod comm_faults;
mod dice;
mod fault;
mod plan;
mod reset;
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
