#![allow(unsafe_code)]
//! Descriptor that is watched for events by the system.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::poller::{Poller, Target, WatchKey};
use super::tcp_info;
use crate::stats::tcp::TcpStats;

/// Events to wait for. A close by the other end is always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    Read,
    Write,
    ReadWrite,
}

impl Events {
    /// Converts from the bits of epoll; without either bit the descriptor is read.
    pub(crate) fn of_epoll(bits: u32) -> Self {
        let flags = EventFlags::from_bits_truncate(bits);
        match (flags.contains(EventFlags::IN), flags.contains(EventFlags::OUT)) {
            (true, true) => Self::ReadWrite,
            (false, true) => Self::Write,
            _ => Self::Read,
        }
    }

    /// Returns edge-triggered flags: each event is reported once. A caller that has not read to the
    /// end must remember that by itself.
    fn flags(self) -> EventFlags {
        let always = EventFlags::RDHUP | EventFlags::ET;
        match self {
            Self::Read => always | EventFlags::IN,
            Self::Write => always | EventFlags::OUT,
            Self::ReadWrite => always | EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// Registration of a watched descriptor, which lasts until it is dropped. Drop it before the
/// descriptor is closed: a forked child may hold the descriptor open, and its events would be
/// reported for ever.
#[derive(Debug)]
pub(crate) struct Watch {
    poller: Arc<Poller>,
    key: WatchKey,
    descriptor: RawFd,
    events: Events,
}

impl Watch {
    /// Watches a descriptor. Its events are reported for `target`.
    ///
    /// # Safety
    /// The descriptor stays open until the watch is dropped.
    pub(crate) unsafe fn new(
        poller: &Arc<Poller>,
        descriptor: RawFd,
        events: Events,
        target: Target,
    ) -> io::Result<Self> {
        let key = poller.name(target);
        let data = EventData::new_u64(key.number());
        // SAFETY: the caller says that it is open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        if let Err(error) = epoll::add(poller.as_fd(), borrowed, data, events.flags()) {
            poller.forget(key);
            return Err(error.into());
        }
        Ok(Self { poller: Arc::clone(poller), key, descriptor, events })
    }

    /// Waits for other events from now on. Events that are there already are reported again.
    pub(crate) fn change(&mut self, events: Events) -> io::Result<()> {
        if events != self.events {
            let data = EventData::new_u64(self.key.number());
            epoll::modify(self.poller.as_fd(), self.borrowed(), data, events.flags())?;
            self.events = events;
        }
        Ok(())
    }

    /// Returns the kernel's figures, where the descriptor is a TCP connection that sends.
    pub(crate) fn tcp_stats(&self) -> Option<TcpStats> {
        tcp_info::stats(self.borrowed())
    }

    fn borrowed(&self) -> BorrowedFd<'_> {
        // SAFETY: the caller of `new` has promised that the descriptor is open while the watch
        // lives.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = epoll::delete(self.poller.as_fd(), self.borrowed());
        self.poller.forget(self.key);
    }
}

/// Socket that may be watched.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    // The watch ends before the socket is closed.
    watch: Option<Watch>,
    socket: S,
}

impl<S: AsFd> Watched<S> {
    /// Makes a socket that is not watched yet.
    pub(crate) fn new(socket: S) -> Self {
        Self { watch: None, socket }
    }

    /// Watches the socket from now on, if that can be done and was not before. Events that are
    /// there already are reported.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, events: Events, target: Target) {
        if self.watch.is_some() {
            return;
        }
        let descriptor = self.socket.as_fd().as_raw_fd();
        // SAFETY: the socket is owned here, is never replaced, and is dropped after the watch.
        match unsafe { Watch::new(poller, descriptor, events, target) } {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => tracing::debug!(%error, "a socket is polled"),
        }
    }

    /// Returns the socket, not watched any more.
    pub(crate) fn into_inner(self) -> S {
        drop(self.watch);
        self.socket
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Waits for other events from now on, if the socket is watched. A socket for which this fails
    /// is not watched any more.
    pub(crate) fn wait_for(&mut self, events: Events) {
        self.watch.take_if(|watch| watch.change(events).is_err());
    }
}

impl<S> Deref for Watched<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}
