//! How two processes come to have the sockets of one comm.
//!
//! - `listen`: listen comms and the thread that accepts one peer
//! - `dial`: connect attempts
//! - `handle`: the bytes that travel from listener to connector
//! - `pairing`: which sockets make up the one peer

mod dial;
mod handle;
mod listen;
mod pairing;

pub(crate) use dial::{ConnectAttempt, Connected};
pub(crate) use handle::{ListenHandle, STATE_OFFSET};
pub(crate) use listen::{Accepted, ListenComm, Sockets};
