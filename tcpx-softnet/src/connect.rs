//! How two processes come to have the sockets of one comm.
//!
//! - `sockets`: what it leads to
//! - `listen`: listen comms
//! - `acceptor`: the thread that accepts one peer
//! - `dial`: connect attempts
//! - `handle`: the bytes that travel from listener to connector
//! - `pairing`: which sockets make up the one peer

mod acceptor;
mod dial;
mod handle;
mod listen;
mod pairing;
mod sockets;

pub(crate) use dial::{ConnectAttempt, Connected};
pub(crate) use handle::{ListenHandle, STATE_OFFSET};
pub(crate) use listen::{Accepted, ListenComm};
pub(crate) use sockets::Sockets;
