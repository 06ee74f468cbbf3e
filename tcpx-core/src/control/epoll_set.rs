//! Set of sockets, and one system call that returns the ready ones.
//!
//! An idle socket costs nothing: one call covers the whole set, and its time grows with the number
//! of ready sockets only.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{Nsecs, Timespec};
use smallvec::SmallVec;

/// Number of sockets that one call returns. Later calls return the other ready sockets: the system
/// takes turns.
const MOST_AT_ONCE: usize = 64;

/// Events to wait for. A close by the other end is always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes to read, or a connection to accept.
    Read,
    /// The same, and room for bytes to send.
    ReadWrite,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN | EventFlags::RDHUP,
            Self::ReadWrite => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
        }
    }
}

/// Set of sockets. The caller chooses the number of each.
///
/// A closed socket leaves the set by itself.
#[derive(Debug)]
pub(crate) struct EpollSet {
    set: OwnedFd,
}

impl EpollSet {
    /// Makes an empty set. It takes one file descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { set: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Adds a socket.
    pub(crate) fn add(&self, socket: impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.set, socket, EventData::new_u64(number), interest.flags())?)
    }

    /// Changes the events to wait for on a socket of the set.
    pub(crate) fn change(
        &self,
        socket: impl AsFd,
        number: u64,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.set, socket, EventData::new_u64(number), interest.flags())?)
    }

    /// Removes a socket that stays open.
    pub(crate) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.set, socket)?)
    }

    /// Returns the numbers of the ready sockets, at most [`MOST_AT_ONCE`]. Never blocks. A socket
    /// that stays ready is returned again.
    pub(crate) fn ready(&self) -> io::Result<SmallVec<[u64; 8]>> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 as Nsecs };
        let mut room = [const { MaybeUninit::<Event>::uninit() }; MOST_AT_ONCE];
        let (events, _) = epoll::wait(&self.set, &mut room, Some(&NOW))?;
        Ok(events.iter().map(|event| event.data.u64()).collect())
    }
}

impl AsFd for EpollSet {
    /// Returns the descriptor of the set, which is readable when a socket of the set is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use tcpx_testkit::until;

    use super::*;

    /// Waits until exactly these sockets are ready.
    fn become_ready(set: &EpollSet, expected: &[u64]) {
        until("these are ready", || {
            let mut ready = set.ready().unwrap();
            ready.sort_unstable();
            ready.as_slice() == expected
        });
    }

    #[test]
    fn only_those_are_named_on_which_something_happens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let set = EpollSet::new().unwrap();
        set.add(&listener, 0, Interest::Read).unwrap();
        assert!(set.ready().unwrap().is_empty());

        let mut far: Vec<_> =
            (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        become_ready(&set, &[0]);
        let mut near: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        for (number, stream) in (1..).zip(&near) {
            set.add(stream, number, Interest::Read).unwrap();
        }
        assert!(set.ready().unwrap().is_empty(), "silent ones are not named");

        far[1].write_all(b"x").unwrap();
        become_ready(&set, &[2]);
        become_ready(&set, &[2]);
        near[1].read_exact(&mut [0]).unwrap();
        assert!(set.ready().unwrap().is_empty());

        set.change(&near[0], 1, Interest::ReadWrite).unwrap();
        become_ready(&set, &[1]);
        set.change(&near[0], 1, Interest::Read).unwrap();
        assert!(set.ready().unwrap().is_empty());

        set.remove(&near[1]).unwrap();
        far.clear();
        become_ready(&set, &[1, 3]);
        near.remove(0);
        become_ready(&set, &[3]);
    }

    #[test]
    fn everybody_is_named_in_turn_where_more_are_ready_than_one_answer_names() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let set = EpollSet::new().unwrap();
        let pairs: Vec<_> = (0..2 * MOST_AT_ONCE as u64 + 1)
            .map(|number| {
                let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let near = listener.accept().unwrap().0;
                far.write_all(b"x").unwrap();
                set.add(&near, number, Interest::Read).unwrap();
                (far, near)
            })
            .collect();
        let mut named = std::collections::BTreeSet::new();
        until("all are named", || {
            let ready = set.ready().unwrap();
            assert!(ready.len() <= MOST_AT_ONCE);
            named.extend(ready);
            named.len() == pairs.len()
        });
    }
}
