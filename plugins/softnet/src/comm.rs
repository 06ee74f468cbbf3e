//! Send and receive comms: what happens between `isend` or `irecv` and a request that is done.
//!
//! - `send_comm`: a send comm; `send_comm::outgoing`: what is on its way to the sockets;
//!   `send_comm::readiness`: what it waits for
//! - `recv_comm`: a receive comm; `recv_comm::feeding`: chunks on their way to lanes;
//!   `recv_comm::records`: what it does with control records;
//!   `recv_comm::arrivals`: with bytes that have come; `recv_comm::readiness`: what it waits for;
//!   `recv_comm::region_use`: what it has of a NIC's region; `recv_comm::nic_trouble`: the end of
//!   that
//! - `recv_request`: one irecv
//! - `options`: what a new comm is told
//! - `requests`: a comm's requests, and what `test` answers
//! - `request_ring`: their order. Pure
//! - `control_socket`: the control socket, with its records on their way out and in
//! - `credit`: the count of posted receives, for sends that wait for their receive
//! - `liveness`: whether a comm's sockets are alive
//! - `tcp_state`: what the system knows of one socket
//! - `needs_call`: whether a caller must ask again by itself
//! - `chunk`: one chunk on its way through a data socket
//! - `lane`: one data socket with its queue of chunks
//! - `socket_way`: how a data socket moves bytes
//! - `zerocopy`: sends of a data socket that the system reads from the chunks' memory
//! - `lanes`: the data sockets of a comm
//! - `lane_order`: which data socket each chunk takes. Pure
//! - `helper_threads`: threads that run lanes
//! - `edges`: for tests, a caller that sleeps until descriptors tell of something

mod chunk;
mod control_socket;
mod credit;
#[cfg(all(test, not(tcpx_helgrind)))]
mod edges;
mod helper_threads;
#[cfg(all(test, not(tcpx_helgrind)))]
mod interleavings;
mod lane;
mod lane_order;
mod lanes;
mod liveness;
mod needs_call;
mod options;
mod recv_comm;
mod recv_request;
mod request_ring;
mod requests;
mod send_comm;
mod socket_way;
mod tcp_state;
mod zerocopy;

pub(crate) use needs_call::NeedsCall;
pub(crate) use options::CommOptions;
pub(crate) use recv_comm::{Delivery, RecvComm};
pub(crate) use recv_request::Destination;
pub(crate) use request_ring::NUMBER_BITS;
pub(crate) use send_comm::SendComm;
pub use zerocopy::{ZeroCopy, ZeroCopyStats, zerocopy_stats};
