//! The session's one set of descriptors, and the threads that wait on it.
//!
//! One thread at a time waits here, without the session's lock; it leads. Whoever gives it
//! something to do wakes it.

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

/// Events that one answer brings. Others come with the next one: the system takes turns.
const MOST_AT_ONCE: usize = 64;
/// The numbers of the descriptor that wakes whoever waits, and of the alarm. Those of watches are
/// larger.
const WAKE: u64 = 0;
const ALARM: u64 = 1;
/// A wait that is longer than this is rounded up to whole milliseconds, which every kernel knows.
const COARSE: Duration = Duration::from_millis(2);
/// What says that a connection has ended, at this end or the other.
const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

new_key_type! {
    /// A descriptor that is watched.
    pub(crate) struct WatchKey;
}

impl WatchKey {
    /// Larger than 2^32: the version of a key that is in use, its upper half, is not 0.
    pub(super) fn number(self) -> u64 {
        self.data().as_ffi()
    }
}

/// What a descriptor belongs to.
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

/// Something has happened on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoEvent {
    pub(crate) target: Target,
    /// The other end has closed the connection, or it has failed.
    pub(crate) is_hung_up: bool,
}

/// The set, and whether somebody waits on it.
#[derive(Debug)]
pub(crate) struct Poller {
    set: OwnedFd,
    wake: OwnedFd,
    targets: Mutex<SlotMap<WatchKey, Target>>,
    /// A thread waits, or is about to.
    is_waited_on: AtomicBool,
    /// There is something to do that the set says nothing of.
    has_work: AtomicBool,
    /// Rings when the next round is due, for a program that waits on the set by itself.
    alarm: OnceLock<AlarmClock>,
}

impl Poller {
    /// An empty set. It takes two file descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // It is told until the one that leads has read it. Told once, it might be told to another
        // thread that looks, and the one that leads would sleep on.
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

    /// A number for a target.
    pub(super) fn name(&self, target: Target) -> WatchKey {
        self.targets().insert(target)
    }

    /// A target is not watched any more.
    pub(super) fn forget(&self, key: WatchKey) {
        self.targets().remove(key);
    }

    fn targets(&self) -> MutexGuard<'_, SlotMap<WatchKey, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to do: whoever waits, or begins to, stops. Returns whether somebody does.
    pub(crate) fn wake(&self) -> bool {
        // Either the one that begins to wait sees this, or this sees that it waits.
        self.has_work.store(true, Ordering::SeqCst);
        let wakes = self.is_waited_on.swap(false, Ordering::SeqCst);
        if wakes || self.is_exported() {
            // It fails when its counter is full, and is readable then.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        wakes
    }

    /// [Wakes](Self::wake) whoever waits, each time it is called.
    pub(crate) fn waker(self: &Arc<Self>) -> impl Fn() + Send + Sync + use<> {
        let poller = Arc::clone(self);
        move || {
            poller.wake();
        }
    }

    /// From now on the set is readable whenever there is something to do, because the program waits
    /// on it: when somebody would be woken, and when the [alarm](Self::set_alarm) rings.
    pub(crate) fn export(&self) -> io::Result<()> {
        if self.is_exported() {
            return Ok(());
        }
        let alarm = AlarmClock::new()?;
        epoll::add(&self.set, &alarm, EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        // Of two threads that do this one is too late, and closes its own.
        let _ = self.alarm.set(alarm);
        self.wake();
        Ok(())
    }

    /// Whether the program waits on the set by itself.
    pub(crate) fn is_exported(&self) -> bool {
        self.alarm.get().is_some()
    }

    /// The next round is due after this time.
    pub(crate) fn set_alarm(&self, time: Duration) {
        if let Some(alarm) = self.alarm.get() {
            alarm.set(time);
        }
    }

    /// Whether there is something to do that the set says nothing of.
    pub(crate) fn has_work(&self) -> bool {
        self.has_work.load(Ordering::SeqCst)
    }

    /// Everything there was to do is being done.
    pub(crate) fn take_work(&self) {
        self.has_work.store(false, Ordering::SeqCst);
    }

    /// Adds what something has happened to, without waiting. Returns whether anything has, or
    /// somebody has woken whoever leads: for that one.
    pub(crate) fn look(&self, into: &mut Vec<IoEvent>) -> bool {
        self.ask(Duration::ZERO, into, true)
    }

    /// The same for a thread that does not lead, and leaves wakes to the one that does.
    pub(crate) fn look_beside(&self, into: &mut Vec<IoEvent>) {
        self.ask(Duration::ZERO, into, false);
    }

    /// Waits until something happens or somebody wakes this thread, for at most this time. One
    /// thread at a time.
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
                // It fails when another thread that led has read it.
                let _ = rustix::io::read(&self.wake, &mut [0; size_of::<u64>()]);
            }
            self.name_targets(events, into);
            Ok(!events.is_empty())
        };
        // A signal ends a wait: whoever waits looks what it is to do, and waits again.
        ask_any_kernel(timeout, ask).unwrap_or(false)
    }

    /// Adds what events say, but for wakes, and for what is not watched any more.
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
    /// Readable when something has happened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Asks, for at most a time. Kernels before 5.11, and some sandboxes, take whole milliseconds only:
/// there a shorter time is slept through, and what has happened by then is asked for at its end.
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
