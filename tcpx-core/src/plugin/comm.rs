//! Owning types for the plugin's comms. Each keeps the rules that the original plugin punishes.
//!
//! - [`raw`]: what all comms have in common: where they are, whose they are, requests.
//! - [`address`], [`memory`]: registering memory with a comm, by a worker.
//! - [`open_comm`]: what comms of both directions can do; closing them, by a worker.
//! - [`listen`]: waiting for one peer.
//! - [`connect`]: connecting to a peer's listen comm.
//! - [`send`]: the sending end of a channel.
//! - [`readiness`]: when a comm may get further.
//! - [`recv`]: the receiving end of a channel.

mod address;
mod connect;
mod listen;
mod memory;
mod open_comm;
mod raw;
mod readiness;
mod recv;
mod returned_handles;
mod send;

pub(crate) use address::Deregistration;
pub(crate) use connect::PendingConnect;
pub(crate) use listen::ListenComm;
pub(crate) use memory::{CommMemory, MemoryHandle, RegisteredRange, Registering, Registrar};
pub(crate) use open_comm::{OpenComm, close_comms};
pub(crate) use raw::Request;
pub(crate) use readiness::NextCall;
pub(crate) use recv::RecvComm;
pub(crate) use returned_handles::ReturnedHandles;
pub(crate) use send::SendComm;
