//! What goes wrong, or is inconvenient, on request: for testing consumers.
//!
//! With the feature `faults`:
//! - `fault`: faults, and how they are spelled
//! - `shape`: legal but inconvenient behaviour
//! - `script`: both together, as settings have them
//! - `calls`: what a script does to calls of the table's entries
//! - `comm_faults`: what it does to a whole comm
//! - `socket_faults`: what it does to one socket
//! - `shaper`: gives shaped messages their pages
//! - `fragment_plan`: how a shaped message is cut into fragments
//! - `rng`: random numbers that a seed repeats
//! - `reset`: ending a connection as the death of its process does
//!
//! Without it:
//! - `absent`: what other rooms ask for, with nothing behind it

#[cfg(not(feature = "faults"))]
mod absent;
#[cfg(feature = "faults")]
mod calls;
#[cfg(feature = "faults")]
mod comm_faults;
#[cfg(feature = "faults")]
mod fault;
#[cfg(feature = "faults")]
mod fragment_plan;
#[cfg(feature = "faults")]
mod reset;
#[cfg(feature = "faults")]
mod rng;
#[cfg(feature = "faults")]
mod script;
#[cfg(feature = "faults")]
mod shape;
#[cfg(feature = "faults")]
mod shaper;
#[cfg(feature = "faults")]
mod socket_faults;

#[cfg(not(feature = "faults"))]
pub use absent::FaultScript;
#[cfg(not(feature = "faults"))]
pub(crate) use absent::{CallCounter, CommFaults, ScriptedCall, Shaper, SocketFaults};
#[cfg(feature = "faults")]
pub(crate) use {
    calls::{CallCounter, ScriptedCall},
    comm_faults::CommFaults,
    shaper::Shaper,
    socket_faults::SocketFaults,
};
#[cfg(feature = "faults")]
pub use {fault::Fault, script::FaultScript, shape::Shape};
