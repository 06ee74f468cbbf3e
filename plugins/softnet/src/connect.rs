//! Listen, connect and accept: how two processes come to have the sockets of one comm.
//!
//! - `listen`: a listen comm
//! - `acceptor`: its thread, which reads hellos and keeps the sockets of one peer
//! - `handshake`: a connection whose hello is not whole
//! - `pairing`: choice of the sockets that make up the peer. Pure
//! - `dial`: a connect attempt and its thread
//! - `handle`: the 128 bytes that travel from listener to connector. Pure
//! - `sockets`: result of a finished attempt or accept

mod acceptor;
mod dial;
mod handle;
mod handshake;
mod listen;
mod pairing;
mod sockets;

pub(crate) use dial::{ConnectAttempt, ConnectPoll};
pub(crate) use handle::{ListenHandle, STATE_OFFSET};
pub(crate) use listen::{AcceptPoll, ListenComm};
pub(crate) use sockets::{Connection, Sockets};
