#![allow(unsafe_code)]
//! Caller in an exploration that sleeps until a comm's descriptors have an edge.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use tcpx_comm::poll::Interest;
use tcpx_sys::{CommDescriptor, MAX_COMM_DESCRIPTORS};

use crate::sync::wait;

/// The descriptors of one comm, watched for edges.
#[derive(Debug)]
pub(super) struct Edges(OwnedFd);

impl Edges {
    /// Watches descriptors, which stay open while they are watched.
    pub(super) fn of(descriptors: &[CommDescriptor]) -> Self {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the descriptor was just opened and has no other owner.
        let set = unsafe { OwnedFd::from_raw_fd(fd) };
        for &CommDescriptor { fd, events } in descriptors {
            let flags = (libc::EPOLLET | libc::EPOLLRDHUP) as u32;
            let mut event = libc::epoll_event { events: events | flags, u64: fd as u64 };
            // SAFETY: the event outlives the call.
            let rc = unsafe {
                libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
            };
            assert_eq!(rc, 0, "{}", io::Error::last_os_error());
        }
        Self(set)
    }

    /// Sleeps until there is an edge.
    pub(super) fn wait(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_COMM_DESCRIPTORS];
        loop {
            wait(&[(self.0.as_fd(), Interest::Read)], None).expect("poll");
            let room = events.len() as c_int;
            // SAFETY: the array has the length that the call gets.
            let count =
                unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, 0) };
            if count > 0 {
                return;
            }
        }
    }
}
