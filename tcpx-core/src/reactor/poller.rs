//! Poller: the session's one set of descriptors, and the threads that wait on it.
//!
//! One thread at a time waits here, without the session's lock; this thread is the leader. A thread
//! that has work for the leader wakes it.

use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Nsecs, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
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
/// Length from which a wait is rounded up to whole milliseconds.
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

    /// Does the same, and ends within microseconds of this time. The system may end other waits 50
    /// µs later, to save wake-ups.
    pub(crate) fn wait_precisely(&self, timeout: Duration, into: &mut Vec<IoEvent>) {
        let _precise = PreciseTimers::begin();
        self.wait(timeout, into);
    }

    fn ask(&self, timeout: Duration, into: &mut Vec<IoEvent>, takes_wakes: bool) -> bool {
        let is_short = !timeout.is_zero() && timeout < COARSE;
        if is_short && !self.is_ready_within(timeout) {
            return false;
        }
        let timeout = if is_short { Duration::ZERO } else { timeout };
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; MOST_AT_ONCE];
        // A signal ends a wait: the caller looks for work, and waits again.
        let Ok((events, _)) = epoll::wait(&self.set, &mut room, Some(&timespec(timeout))) else {
            return false;
        };
        if takes_wakes && events.iter().any(|event| event.data.u64() == WAKE) {
            // The read fails when another thread that led has read the counter.
            let _ = rustix::io::read(&self.wake, &mut [0; size_of::<u64>()]);
        }
        self.name_targets(events, into);
        !events.is_empty()
    }

    /// Waits for an event. epoll_wait would round the time up to whole milliseconds.
    fn is_ready_within(&self, timeout: Duration) -> bool {
        let mut set = [PollFd::new(&self.set, PollFlags::IN)];
        poll(&mut set, Some(&timespec(timeout))).is_ok_and(|ready| ready > 0)
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

/// Timers of the calling thread that end on time. The thread has its own slack again when this is
/// dropped: it may be the program's.
struct PreciseTimers {
    own_slack_ns: Option<NonZeroU64>,
}

impl PreciseTimers {
    fn begin() -> Self {
        // A thread of the real-time class has a slack of 0, and keeps it.
        let own_slack_ns = current_timer_slack().ok().and_then(NonZeroU64::new);
        if own_slack_ns.is_some() {
            // Where the system refuses, waits take as long as ever.
            let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        }
        Self { own_slack_ns }
    }
}

impl Drop for PreciseTimers {
    fn drop(&mut self) {
        if let Some(own) = self.own_slack_ns {
            let _ = set_current_timer_slack(Some(own));
        }
    }
}

impl AsFd for Poller {
    /// Returns the set, which is readable when there is an event.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

fn timespec(time: Duration) -> Timespec {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos() as Nsecs }
}

#[cfg(test)]
mod tests;
