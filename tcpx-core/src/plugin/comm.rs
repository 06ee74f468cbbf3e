//! Owning types for the plugin's comms. Each keeps the rules whose violation the original plugin
//! punishes.
//!
//! - [`raw`]: common part of all comms: address in the plugin, label, requests, and the time at
//!   which a comm may make progress.
//! - [`memory`]: registering memory with a comm, by a worker.
//! - [`open_comm`]: common operations of comms of both directions; closing them, by a worker.
//! - [`send`]: the sending end of a channel, and connecting it to a peer's listen comm.
//! - [`recv`]: the receiving end of a channel, and waiting for its peer.

mod memory;
mod open_comm;
mod raw;
mod recv;
mod send;

pub(crate) use memory::{
    CommMemory, Deregistration, MemoryHandle, PendingRegistration, RegisteredRange, Registrar,
};
pub(crate) use open_comm::{OpenComm, ReturnedHandles, close_comms};
pub(crate) use raw::{NextCall, Request};
pub(crate) use recv::{ListenComm, RecvComm};
pub(crate) use send::{PendingConnect, SendComm};
