//! Readiness of descriptors, as the system reports it, and the ways in which a thread waits for it.
//! This file says when a peer must be driven next, and has a descriptor that becomes readable after
//! a while.
//!
//! - `poller`: the session's one set of descriptors. `watch`: a descriptor in it.
//! - `tcp_info`: how many bytes the kernel takes at once, whether the peer's host acknowledges sent
//!   bytes, and figures of a connection.
//! - `spin`: whether it pays to look again before a thread sleeps. Pure.

pub(crate) mod poller;
pub(crate) mod spin;
pub(crate) mod tcp_info;
pub(crate) mod watch;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// Attention that a peer needs after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attention {
    /// In the next round: it has more to do.
    pub(crate) again: bool,
    /// Whether the peer must be driven in every round: no descriptor reports what it waits for.
    pub(crate) polls: bool,
    /// When a worker has come to something.
    pub(crate) awaits_worker: bool,
    /// Chunks of it are being unpacked or gathered.
    pub(crate) holds_slots: bool,
    /// Chunks are being sent.
    pub(crate) sending: bool,
    /// Posted receives wait.
    pub(crate) receiving: bool,
    /// At this time.
    pub(crate) timeout: Option<Instant>,
}

impl Attention {
    /// Returns the attention that both need together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            again: self.again || other.again,
            polls: self.polls || other.polls,
            awaits_worker: self.awaits_worker || other.awaits_worker,
            holds_slots: self.holds_slots || other.holds_slots,
            sending: self.sending || other.sending,
            receiving: self.receiving || other.receiving,
            timeout: [self.timeout, other.timeout].into_iter().flatten().min(),
        }
    }
}

/// Timer of the system.
#[derive(Debug)]
pub(super) struct AlarmClock(OwnedFd);

impl AlarmClock {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Rings after this time; what was set before does not.
    pub(super) fn set(&self, time: Duration) {
        // Zero would turn it off.
        let time = time.max(Duration::from_nanos(1));
        let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() },
        };
        // It fails for a time that is none, which this cannot be.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once);
    }
}

impl AsFd for AlarmClock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
