//! What goes wrong, or is inconvenient, on request: for testing consumers.
//!
//! - `fault`: faults, and how they are spelled
//! - `shape`: legal but inconvenient behaviour
//! - `quirks`: which of the original's behaviours the plugin takes on
//! - `script`: all of them together, as settings have them
//! - `accept_manner`: what accept does before it gives a comm
//! - `calls`: what a script does to calls of the table's entries
//! - `comm_faults`: what it does to a whole comm
//! - `socket_faults`: what it does to one socket
//! - `arrival`: bounce pages that are taken one by one as bytes arrive
//! - `packet_cutter`: where the payload of packets lies in those pages. Pure
//! - `lost_pages`: pages whose tokens the original forgets
//! - `pace`: how few requests the original takes up with each call. Pure
//! - `process_end`: what the original does to its process
//! - `shaper`: gives messages their pages, in the way that the shape asks for
//! - `fragment_plan`: how a shaped message is cut into fragments. Pure
//! - `rng`: random numbers that the same seed repeats
//!
//! Without the feature `faults`, `no_faults.rs` takes the place of this module.

mod accept_manner;
mod arrival;
mod calls;
mod comm_faults;
mod fault;
mod fragment_plan;
mod lost_pages;
mod pace;
mod packet_cutter;
mod process_end;
mod quirks;
mod rng;
mod script;
mod shape;
mod shaper;
mod socket_faults;

pub(crate) use accept_manner::AcceptManner;
pub(crate) use arrival::ArrivalPages;
pub(crate) use calls::{CallCounter, ScriptedCall};
pub(crate) use comm_faults::CommFaults;
pub use fault::Fault;
pub(crate) use lost_pages::LostPages;
pub(crate) use pace::Pace;
pub(crate) use process_end::{close_descriptor_zero, crash, failstop};
pub use quirks::Quirks;
pub use script::FaultScript;
pub use shape::Shape;
pub(crate) use shaper::Shaper;
pub(crate) use socket_faults::SocketFaults;
