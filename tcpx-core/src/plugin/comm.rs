//! Owning types for the plugin's comms. Each keeps the rules that the original plugin punishes.
//!
//! - [`raw`]: what all comms have in common: address, owner, requests, registrations.
//! - [`listen`]: waiting for one peer.
//! - [`connect`]: connecting to a peer's listen comm.
//! - [`send`]: the sending end of a channel.
//! - [`recv`]: the receiving end of a channel.

mod connect;
mod listen;
mod raw;
mod recv;
mod send;

pub(crate) use connect::PendingConnect;
pub(crate) use listen::ListenComm;
pub(crate) use raw::{CommLabel, MemoryHandle, Registrar, Request};
pub(crate) use recv::RecvComm;
pub(crate) use send::SendComm;
