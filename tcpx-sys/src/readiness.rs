//! Second addition to the table that only plugins of this project have: the symbol
//! `tcpxCommPoll_v1`. It reports what a caller waits for, instead of calling `test` in a loop.
//!
//! After a `test` with the result "not done" the caller calls `needsCall`. While the answer is 1 or
//! 2, `test` may make progress. When the answer is 0, nothing happens before one of the comm's
//! descriptors becomes ready or the caller posts or consumes something on the comm. Other plugins
//! lack the symbol, and NCCL does not look for it.

use core::ffi::{c_int, c_void};
use core::mem::{align_of, offset_of, size_of};

use crate::addition::addition;
use crate::types::{NcclResult, assert_layout};

/// Name of the data symbol that is the struct.
pub const READINESS_SYMBOL: &str = "tcpxCommPoll_v1";

/// Largest number of descriptors of a comm: eight data sockets, a control socket, and an event of
/// its helper threads.
pub const MAX_COMM_DESCRIPTORS: usize = 10;

/// Descriptor of a comm, and the events to watch for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommDescriptor {
    /// Descriptor of this process. The plugin owns it: no other code reads, writes or closes it.
    pub fd: c_int,
    /// `EPOLLIN`, `EPOLLOUT` or both.
    pub events: u32,
}

assert_layout!(CommDescriptor, size 8, align 4, { fd 0, events 4 });

/// `descriptors(comm, out, capacity, count)`. Writes the descriptors of a send or receive comm to
/// `out`, at most `capacity` of them. `count` is the number of descriptors of the comm.
///
/// The descriptors do not change while the comm is open. The caller watches them edge-triggered
/// (`EPOLLET`), for `events`, `EPOLLRDHUP` and the events that epoll always reports. The caller
/// removes them from the epoll set before it closes the comm. `EPOLLERR` may happen on a live comm:
/// a notification of the system about sent bytes.
pub type CommDescriptorsFn = unsafe extern "C" fn(
    comm: *mut c_void,
    out: *mut CommDescriptor,
    capacity: c_int,
    count: *mut c_int,
) -> NcclResult;
/// `needsCall(comm, answer)`. Returns whether a further `test` of the comm's oldest request may
/// make progress although no descriptor becomes ready. 2: at once, because there is more to move
/// than one `test` moves. 1: soon, because the request waits for an event that no descriptor
/// reports. 0: no progress is possible, or there is no request.
pub type NeedsCallFn = unsafe extern "C" fn(comm: *mut c_void, answer: *mut c_int) -> NcclResult;

addition! {
    /// The 16 bytes that the symbol `tcpxCommPoll_v1` *is*.
    ///
    /// Some events produce no edge: a peer's host that falls silent, or a connection that was reset
    /// behind bytes that still lay in the socket. A caller that waits for edges therefore calls
    /// `checkComm` ([`crate::CommHealthV1`]) about once a second on each comm with a request.
    struct CommPollV1;
    /// Functions of the addition, each known to be set.
    entries ReadinessEntries;
    { descriptors: CommDescriptorsFn, needs_call: NeedsCallFn }
}

assert_layout!(CommPollV1, size 16, align 8, { descriptors 0, needs_call 8 });
