//! A second addition to the table that only plugins of this project have: the symbol
//! `tcpxCommPoll_v1`, which says what a caller waits for instead of calling `test` in a loop.
//!
//! After a `test` that answered "not done" the caller asks `needsCall`. While that says 1 or 2,
//! `test` may get further. When it says 0, nothing happens before one of the comm's descriptors
//! becomes ready or the caller posts or consumes something on the comm. Other plugins lack the
//! symbol, and NCCL does not look for it.

use core::ffi::{c_int, c_void};
use core::mem::{align_of, offset_of, size_of};

use crate::addition::addition;
use crate::types::{NcclResult, assert_layout};

/// The data symbol that is the struct.
pub const READINESS_SYMBOL: &str = "tcpxCommPoll_v1";

/// Most descriptors that a comm has: eight data sockets, a control socket, and an event of its
/// helper threads.
pub const MAX_COMM_DESCRIPTORS: usize = 10;

/// A descriptor of a comm, and what to watch it for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommDescriptor {
    /// A descriptor of this process. It is the plugin's: nobody else reads, writes or closes it.
    pub fd: c_int,
    /// `EPOLLIN`, `EPOLLOUT` or both.
    pub events: u32,
}

assert_layout!(CommDescriptor, size 8, align 4, { fd 0, events 4 });

/// `descriptors(comm, out, capacity, count)`. The descriptors of a send or receive comm, at most
/// `capacity` of them to `out`; `count` is how many there are.
///
/// They are the same as long as the comm is open. They are to be watched edge-triggered, for
/// `events`, `EPOLLRDHUP` and what epoll always tells (`EPOLLET`), and to be taken out of the epoll
/// set before the comm is closed. `EPOLLERR` is one of the things that may happen on a live comm: a
/// word of the system's about what it has sent.
pub type CommDescriptorsFn = unsafe extern "C" fn(
    comm: *mut c_void,
    out: *mut CommDescriptor,
    capacity: c_int,
    count: *mut c_int,
) -> NcclResult;
/// `needsCall(comm, answer)`. Not 0 when a further `test` of the comm's oldest request may get
/// further although no descriptor becomes ready: 2 at once, because there is more to move than one
/// `test` does; 1 soon, because it waits for something that no descriptor tells. 0 when it cannot.
/// Without a request it is 0.
pub type NeedsCallFn = unsafe extern "C" fn(comm: *mut c_void, answer: *mut c_int) -> NcclResult;

addition! {
    /// The 16 bytes that the symbol `tcpxCommPoll_v1` *is*.
    ///
    /// What only time tells is not an edge: a peer's host that falls silent, or a connection that
    /// was reset behind bytes that still lay in the socket. A caller that waits for edges therefore
    /// calls `checkComm` ([`crate::CommHealthV1`]) about once a second on each comm that has a
    /// request.
    struct CommPollV1;
    /// The functions of the addition, each known to be there.
    entries ReadinessEntries;
    { descriptors: CommDescriptorsFn, needs_call: NeedsCallFn }
}

assert_layout!(CommPollV1, size 16, align 8, { descriptors 0, needs_call 8 });
