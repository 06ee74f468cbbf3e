//! A descriptor that becomes readable after a while.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// A timer of the system.
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
