//! Send and receive comms: what happens between `isend` or `irecv` and a request that is done.
//!
//! - `send_comm`: sends
//! - `recv_comm`: receives
//! - `options`: what a new comm is told
//! - `receive`: one irecv
//! - `requests`: the sixteen requests of a comm
//! - `control_socket`: the control socket, and records on their way
//! - `grants`: the count of posted receives, when sends wait for them
//! - `lane_order`: which data socket each chunk takes
//! - `lane`: one data socket
//! - `lanes`: the data sockets of a comm
//! - `helper_threads`: threads that run lanes

mod control_socket;
mod credit;
mod helper_threads;
mod lane;
mod lane_order;
mod lanes;
mod options;
mod recv_comm;
mod recv_request;
mod request_ring;
mod requests;
mod send_comm;

pub(crate) use options::CommOptions;
pub(crate) use recv_comm::RecvComm;
pub(crate) use recv_request::Destination;
pub(crate) use request_ring::NUMBER_BITS;
pub(crate) use send_comm::SendComm;
