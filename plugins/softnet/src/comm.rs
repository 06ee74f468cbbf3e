//! Send and receive comms: what happens between `isend` or `irecv` and a request that is done.
//!
//! - `send_comm`: a send comm; `send_comm::queueing`: messages on their way from the post, over
//!   pinned pages where a GPU has them; `send_comm::outgoing`: records and chunks on their way to
//!   the sockets; `send_comm::readiness`: the events that it waits for
//! - `recv_comm`: a receive comm; `recv_comm::feeding`: chunks on their way to lanes;
//!   `recv_comm::records`: matching of control records with posted receives; `recv_comm::arrivals`:
//!   bytes that have come; `recv_comm::readiness`: the events that it waits for;
//!   `recv_comm::region_share`: its share of a NIC's region; `recv_comm::nic_trouble`: failures of
//!   the NIC
//! - `recv_request`: one irecv
//! - `options`: settings of a new comm
//! - `requests`: a comm's requests, and the answers of `test`
//! - `request_ring`: their order. Pure
//! - `control_socket`: the control socket, with its records on their way out and in
//! - `credit`: the count of posted receives, for sends that wait for their receive
//! - `liveness`: watch of a comm's sockets for dead connections
//! - `tcp_state`: the system's state of one connection
//! - `needs_call`: answer to whether a caller must call `test` again by itself
//! - `chunk`: one chunk on its way through a data socket
//! - `lane`: one data socket with its queue of chunks
//! - `socket_io`: system calls by which a data socket moves bytes
//! - `encrypted_io`: encrypted bytes of a socket, on their way out and in
//! - `zerocopy`: sends of a data socket that the system reads from the chunks' memory
//! - `lanes`: the data sockets of a comm
//! - `lane_order`: choice of a data socket for each chunk. Pure
//! - `helper_threads`: threads that run lanes
//! - `edges`: for tests, a caller that sleeps until a descriptor has news

mod chunk;
mod control_socket;
mod credit;
#[cfg(all(test, not(tcpx_helgrind)))]
mod edges;
mod encrypted_io;
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
mod socket_io;
mod tcp_state;
mod zerocopy;

pub(crate) use needs_call::NeedsCall;
pub(crate) use options::CommOptions;
pub(crate) use recv_comm::{DeviceContent, RecvComm};
pub(crate) use recv_request::Destination;
pub(crate) use request_ring::NUMBER_BITS;
pub(crate) use send_comm::SendComm;
pub use zerocopy::{ZeroCopy, ZeroCopyStats, zerocopy_stats};
