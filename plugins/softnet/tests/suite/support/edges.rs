#![allow(unsafe_code)]
//! A caller that waits for edges of a comm's descriptors instead of calling `test` in a loop.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tcpx_softnet::comm_poll;
use tcpx_sys::{CommDescriptor, MAX_COMM_DESCRIPTORS};
use tcpx_testkit::PATIENCE;

use super::{Net, PluginPtr};

/// The code, and the first `capacity` descriptors of all that the comm has.
pub(crate) fn descriptors(comm: PluginPtr, capacity: usize) -> (c_int, Vec<CommDescriptor>, usize) {
    let mut all = [CommDescriptor::default(); MAX_COMM_DESCRIPTORS];
    let mut count = 0;
    let ask = comm_poll().descriptors.expect("it is set");
    // SAFETY: the array has the length that the call gets, or is longer; any word may be a comm.
    let rc = unsafe { ask(comm, all.as_mut_ptr(), capacity as c_int, &raw mut count) }.0;
    let written = all.iter().filter(|it| **it != CommDescriptor::default());
    (rc, written.copied().collect(), count as usize)
}

/// The code and the answer.
pub(crate) fn needs_call(comm: PluginPtr) -> (c_int, c_int) {
    let mut answer = 7;
    // SAFETY: the output is a live int; any word may be a comm.
    let rc = unsafe { comm_poll().needs_call.expect("it is set")(comm, &raw mut answer) }.0;
    (rc, answer)
}

/// The descriptors of one comm, watched for edges.
pub(crate) struct Edges {
    set: OwnedFd,
    net: Net,
    comm: PluginPtr,
    /// How often it waited.
    pub(crate) waits: AtomicU64,
    /// How often `test` was called because it was said to get further.
    pub(crate) calls: AtomicU64,
}

// SAFETY: the comm is an id, and the tests use each comm from one thread at a time.
unsafe impl Sync for Edges {}

impl Edges {
    pub(crate) fn of(net: Net, comm: PluginPtr) -> Self {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: the descriptor was just opened and has no other owner.
        let set = unsafe { OwnedFd::from_raw_fd(fd) };
        let (rc, all, count) = descriptors(comm, MAX_COMM_DESCRIPTORS);
        assert_eq!((rc, all.len()), (0, count));
        for CommDescriptor { fd, events } in all {
            let flags = (libc::EPOLLET | libc::EPOLLRDHUP) as u32;
            let mut event = libc::epoll_event { events: events | flags, u64: fd as u64 };
            // SAFETY: the event outlives the call.
            let rc = unsafe {
                libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
            };
            assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
        }
        Self { set, net, comm, waits: AtomicU64::new(0), calls: AtomicU64::new(0) }
    }

    /// Whether there is an edge, within this time.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_COMM_DESCRIPTORS];
        let (room, millis) = (events.len() as c_int, time.as_millis() as c_int);
        loop {
            // SAFETY: the array has the length that the call gets.
            let count = unsafe {
                libc::epoll_wait(self.set.as_raw_fd(), events.as_mut_ptr(), room, millis)
            };
            if count >= 0 {
                return count > 0;
            }
            let error = std::io::Error::last_os_error();
            assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
        }
    }

    /// Calls `test` only when an edge came or when it is said to get further. The final answer: 0
    /// for done. A wake-up that is lost is a failure, after a long time.
    pub(crate) fn finish(&self, request: PluginPtr) -> c_int {
        let start = Instant::now();
        loop {
            let (rc, done) = self.net.test(request);
            if rc != 0 || done == 1 {
                return rc;
            }
            if needs_call(self.comm).1 != 0 {
                self.calls.fetch_add(1, Ordering::Relaxed);
                assert!(start.elapsed() < PATIENCE, "called all the time for nothing");
                std::thread::yield_now();
            } else {
                self.waits.fetch_add(1, Ordering::Relaxed);
                assert!(self.wait(PATIENCE), "nothing became ready: a wake-up was lost");
            }
        }
    }
}
