//! Send and receive comms: what happens between `isend` or `irecv` and a request that is done.
//!
//! - `send_comm`: sends
//! - `recv_comm`: receives
//! - `receive`: one irecv
//! - `requests`: the sixteen requests of a comm
//! - `control`: the control socket
//! - `flow`: how a message is cut and which data socket each chunk takes
//! - `lane`: one data socket
//! - `lanes`: the data sockets of a comm
//! - `helper_threads`: threads that run lanes

mod control;
mod flow;
mod helper_threads;
mod lane;
mod lanes;
mod receive;
mod recv_comm;
mod requests;
mod send_comm;

pub(crate) use flow::chunk_at;
pub(crate) use receive::Destination;
pub(crate) use recv_comm::RecvComm;
pub(crate) use send_comm::SendComm;
