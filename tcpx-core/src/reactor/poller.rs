//! Poller: the session's one set of descriptors, and the threads that wait on it.
//!
//! One thread at a time waits here, without the session's lock; this thread is the leader. A thread
//! that has work for the leader wakes it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Nsecs, Timespec, eventfd};
use rustix::io::Errno;
use slotmap::{Key, KeyData, SlotMap, new_key_type};

use super::AlarmClock;
use crate::types::PeerKey;

/// Number of events that one answer brings. Others come with the next answer: the system takes
/// turns.
const MOST_AT_ONCE: usize = 64;
/// Numbers of the descriptor that wakes the waiting thread, and of the alarm. Those of watches are
/// larger.
const WAKE: u64 = 0;
const ALARM: u64 = 1;
/// Length from which a wait is rounded up to whole milliseconds, which every kernel knows.
const COARSE: Duration = Duration::from_millis(2);
/// Flags that say that a connection has ended, at this end or the other.
const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

new_key_type! {
    /// Key of a watched descriptor.
    pub(crate) struct WatchKey;
}

impl WatchKey {
    /// Returns a number larger than 2^32: the version of a key in use, its upper half, is not 0.
    pub(super) fn number(self) -> u64 {
        self.data().as_ffi()
    }
}

/// Object that a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The control listener.
    Listener,
    /// The control link of a peer.
    Link(PeerKey),
    /// The send comm of a channel.
    Send(PeerKey, u16),
    /// The receive comm of a channel.
    Receive(PeerKey, u16),
}

/// Event on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoEvent {
    pub(crate) target: Target,
    /// Whether the other end has closed the connection, or the connection has failed.
    pub(crate) is_hung_up: bool,
}

/// Set of descriptors, and whether a thread waits on it.
#[derive(Debug)]
pub(crate) struct Poller {
    set: OwnedFd,
    wake: OwnedFd,
    targets: Mutex<SlotMap<WatchKey, Target>>,
    /// Whether a thread waits, or is about to.
    is_waited_on: AtomicBool,
    /// Whether there is work that the set does not report.
    has_work: AtomicBool,
    /// Alarm that rings when the next round is due, for a program that waits on the set by itself.
    alarm: OnceLock<AlarmClock>,
}

impl Poller {
    /// Makes an empty set. It takes two file descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Level-triggered: reported until the leader has read it. An edge might be reported to
        // another thread that looks, and the leader would sleep on.
        epoll::add(&set, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self {
            set,
            wake,
            targets: Mutex::default(),
            is_waited_on: AtomicBool::new(false),
            has_work: AtomicBool::new(false),
            alarm: OnceLock::new(),
        })
    }

    /// Returns a number for a target.
    pub(super) fn name(&self, target: Target) -> WatchKey {
        self.targets().insert(target)
    }

    /// Stops watching a target.
    pub(super) fn forget(&self, key: WatchKey) {
        self.targets().remove(key);
    }

    fn targets(&self) -> MutexGuard<'_, SlotMap<WatchKey, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the wait of the thread that waits, or begins to: there is work. Returns whether a
    /// thread waits.
    pub(crate) fn wake(&self) -> bool {
        // Either the thread that begins to wait sees this mark, or this thread sees that the other
        // one waits.
        self.has_work.store(true, Ordering::SeqCst);
        let wakes = self.is_waited_on.swap(false, Ordering::SeqCst);
        if wakes || self.is_exported() {
            // The write fails when the counter is full, and the descriptor is readable then.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        wakes
    }

    /// Returns a function that [wakes](Self::wake) the waiting thread, each time it is called.
    pub(crate) fn waker(self: &Arc<Self>) -> impl Fn() + Send + Sync + use<> {
        let poller = Arc::clone(self);
        move || {
            poller.wake();
        }
    }

    /// Makes the set readable from now on whenever there is work, because the program waits on the
    /// set: when a thread would be woken, and when the [alarm](Self::set_alarm) rings.
    pub(crate) fn export(&self) -> io::Result<()> {
        if self.is_exported() {
            return Ok(());
        }
        let alarm = AlarmClock::new()?;
        epoll::add(&self.set, &alarm, EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        // Of two threads that do this, one is too late and closes its own alarm.
        let _ = self.alarm.set(alarm);
        self.wake();
        Ok(())
    }

    /// Returns whether the program waits on the set by itself.
    pub(crate) fn is_exported(&self) -> bool {
        self.alarm.get().is_some()
    }

    /// Sets the time after which the next round is due.
    pub(crate) fn set_alarm(&self, time: Duration) {
        if let Some(alarm) = self.alarm.get() {
            alarm.set(time);
        }
    }

    /// Returns whether there is work that the set does not report.
    pub(crate) fn has_work(&self) -> bool {
        self.has_work.load(Ordering::SeqCst)
    }

    /// Takes the work mark away: all work so far is being done.
    pub(crate) fn take_work(&self) {
        self.has_work.store(false, Ordering::SeqCst);
    }

    /// Adds the events so far to `into`, without waiting. Returns whether there is an event or a
    /// wake-up for the leader. Only the leader calls this.
    pub(crate) fn look(&self, into: &mut Vec<IoEvent>) -> bool {
        self.ask(Duration::ZERO, into, true)
    }

    /// Does the same for a thread that does not lead, and leaves wake-ups to the leader.
    pub(crate) fn poll_beside(&self, into: &mut Vec<IoEvent>) {
        self.ask(Duration::ZERO, into, false);
    }

    /// Waits until an event or a wake-up, for at most this time. One thread at a time may wait.
    pub(crate) fn wait(&self, timeout: Duration, into: &mut Vec<IoEvent>) {
        self.is_waited_on.store(true, Ordering::SeqCst);
        if !self.has_work.load(Ordering::SeqCst) {
            self.ask(timeout, into, true);
        }
        self.is_waited_on.store(false, Ordering::SeqCst);
    }

    fn ask(&self, timeout: Duration, into: &mut Vec<IoEvent>, takes_wakes: bool) -> bool {
        let ask = |timeout| {
            let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; MOST_AT_ONCE];
            let (events, _) = epoll::wait(&self.set, &mut room, Some(&timespec(timeout)))?;
            if takes_wakes && events.iter().any(|event| event.data.u64() == WAKE) {
                // The read fails when another thread that led has read the counter.
                let _ = rustix::io::read(&self.wake, &mut [0; size_of::<u64>()]);
            }
            self.name_targets(events, into);
            Ok(!events.is_empty())
        };
        // A signal ends a wait: the caller looks for work, and waits again.
        ask_any_kernel(timeout, ask).unwrap_or(false)
    }

    /// Adds events by target, without wake-ups and targets that are no longer watched.
    fn name_targets(&self, events: &[epoll::Event], into: &mut Vec<IoEvent>) {
        if events.is_empty() {
            return;
        }
        let targets = self.targets();
        into.extend(events.iter().filter_map(|event| {
            let number = event.data.u64();
            let key = (number > ALARM).then(|| WatchKey::from(KeyData::from_ffi(number)))?;
            let flags = event.flags;
            let is_hung_up = flags.intersects(HUNG_UP);
            Some(IoEvent { target: *targets.get(key)?, is_hung_up })
        }));
    }
}

impl AsFd for Poller {
    /// Returns the set, which is readable when there is an event.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Asks the system, for at most `timeout`. Kernels before 5.11, and some sandboxes, take whole
/// milliseconds only: there a shorter time is slept through, and the events until then are read at
/// its end.
fn ask_any_kernel<T>(
    timeout: Duration,
    mut ask: impl FnMut(Duration) -> Result<T, Errno>,
) -> Result<T, Errno> {
    match ask(timeout) {
        Err(Errno::NOSYS | Errno::PERM) if !timeout.is_zero() => {
            std::thread::sleep(timeout);
            ask(Duration::ZERO)
        }
        answer => answer,
    }
}

fn timespec(time: Duration) -> Timespec {
    let time = match time > COARSE {
        true => Duration::from_millis(time.as_micros().div_ceil(1_000) as u64),
        false => time,
    };
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos() as Nsecs }
}

#[cfg(test)]
mod tests;
