//! One descriptor for an event loop of the program.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::{Error, Result};
use crate::reactor::poller::Poller;

/// Readable when the completion event is, or a round of progress is due.
#[derive(Debug, Default)]
pub(super) struct EventSet(OnceLock<OwnedFd>);

impl EventSet {
    /// The descriptor, made when it is first asked for.
    pub(super) fn open(
        &self,
        completed: BorrowedFd<'_>,
        poller: &Poller,
    ) -> Result<BorrowedFd<'_>> {
        if let Some(set) = self.0.get() {
            return Ok(set.as_fd());
        }
        let make = || {
            poller.export()?;
            let set = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&set, completed, EventData::new_u64(0), EventFlags::IN)?;
            epoll::add(&set, poller.as_fd(), EventData::new_u64(1), EventFlags::IN)?;
            Ok(set)
        };
        let set =
            make().map_err(|error: std::io::Error| Error::io("making an event set", &error))?;
        Ok(self.0.get_or_init(|| set).as_fd())
    }
}
