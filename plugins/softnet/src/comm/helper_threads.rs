//! Helper threads that run the lanes of one comm.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use tcpx_comm::poll::Interest;

use super::lane::{Lane, Progress};
use crate::log;
use crate::sync::{AtomicBool, Waker, thread, wait};
use tcpx_sys::CpuSet;

/// Most bytes that one socket call moves.
const CALL_BYTES: usize = 1 << 20;
/// Longest time for which a helper looks without a pause whether a GPU has copied a chunk down: as
/// long as a thread takes to wake.
const COPY_SPIN: Duration = Duration::from_micros(50);
/// Pause before a helper tries again to place bytes that were read from a socket, or looks whether
/// a GPU has copied a chunk down.
const HELD_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Shared {
    wake: Waker,
    stop: AtomicBool,
    /// Whether the helper is about to wait, so that a new chunk must wake it.
    asleep: AtomicBool,
    /// Whether the helper waits or is about to, or was woken and does not run yet. A hint: the lock
    /// of a lane decides who runs it.
    resting: AtomicBool,
    /// Whether the helper waits for a GPU that copies a chunk down, or did when it began to wait.
    awaits_copy: AtomicBool,
}

impl Shared {
    fn set_resting(&self, is_resting: bool) {
        self.resting.store(is_resting, Ordering::Relaxed);
        self.asleep.store(is_resting, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct HelperThread {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Helper threads of one comm; dropping it stops and joins them.
#[derive(Debug)]
pub(crate) struct HelperThreads {
    helpers: Vec<HelperThread>,
}

impl HelperThreads {
    /// Starts `threads` threads, on `cpus` if they are given; lane i belongs to thread i mod
    /// `threads`.
    pub(crate) fn start(
        lanes: &[Arc<Lane>],
        threads: usize,
        cpus: Option<&CpuSet>,
    ) -> io::Result<Self> {
        Self::start_with(lanes, threads, cpus, Waker::new)
    }

    /// Starts threads with wakers that the caller makes.
    pub(super) fn start_with(
        lanes: &[Arc<Lane>],
        threads: usize,
        cpus: Option<&CpuSet>,
        mut waker: impl FnMut() -> io::Result<Waker>,
    ) -> io::Result<Self> {
        // Dropping this stops the threads that have started, where one cannot start.
        let mut all = Self { helpers: Vec::new() };
        for index in 0..threads.min(lanes.len()) {
            let mine: Vec<_> = lanes.iter().skip(index).step_by(threads).cloned().collect();
            let shared = Arc::new(Shared {
                wake: waker()?,
                stop: AtomicBool::new(false),
                asleep: AtomicBool::new(false),
                resting: AtomicBool::new(false),
                awaits_copy: AtomicBool::new(false),
            });
            let theirs = Arc::clone(&shared);
            let cpus = cpus.cloned();
            let name = format!("tcpx-soft-{index}");
            let handle = thread::Builder::new().name(name).spawn(move || {
                if let Some(Err(error)) = cpus.as_ref().map(CpuSet::run_here) {
                    log::warn!("a helper thread cannot run on {cpus:?}: {error}");
                }
                run(&mine, &theirs);
            })?;
            all.helpers.push(HelperThread { shared, thread: Some(handle) });
        }
        Ok(all)
    }

    /// Returns whether the thread of a lane waits, and was not notified.
    pub(crate) fn is_asleep(&self, lane: usize) -> bool {
        self.of(lane).asleep.load(Ordering::SeqCst)
    }

    /// Returns whether the thread of a lane waits, or was woken and does not run yet. It may begin
    /// to run at any moment.
    pub(crate) fn is_resting(&self, lane: usize) -> bool {
        self.of(lane).resting.load(Ordering::Relaxed)
    }

    /// Returns whether the thread of a lane waits for a GPU: the end of the copy must wake it.
    pub(crate) fn awaits_copy(&self, lane: usize) -> bool {
        // Pairs with the fence in `run`: either the helper sees the end of the copy, or we see that
        // it waits.
        fence(Ordering::SeqCst);
        self.of(lane).awaits_copy.load(Ordering::Relaxed)
    }

    /// Notifies the thread of a lane that the lane has a new chunk.
    pub(crate) fn notify(&self, lane: usize) {
        let shared = self.of(lane);
        // Pairs with the fence in `run`: either the helper sees the chunk, or we see that it
        // sleeps.
        fence(Ordering::SeqCst);
        if shared.asleep.swap(false, Ordering::SeqCst) {
            shared.wake.notify();
        }
    }

    fn of(&self, lane: usize) -> &Shared {
        &self.helpers[lane % self.helpers.len()].shared
    }
}

impl Drop for HelperThreads {
    fn drop(&mut self) {
        for helper in &self.helpers {
            helper.shared.stop.store(true, Ordering::SeqCst);
            helper.shared.wake.notify();
        }
        for helper in &mut self.helpers {
            if let Some(thread) = helper.thread.take()
                && thread.join().is_err()
            {
                log::warn!("a helper thread panicked");
            }
        }
    }
}

fn run(lanes: &[Arc<Lane>], shared: &Shared) {
    while !shared.stop.load(Ordering::SeqCst) {
        if run_all(lanes) || is_copied_soon(lanes) {
            continue;
        }
        let awaits_copy = lanes.iter().any(|lane| lane.awaits_copy());
        shared.awaits_copy.store(awaits_copy, Ordering::Relaxed);
        shared.set_resting(true);
        fence(Ordering::SeqCst);
        // Chunks that came before the stores were not announced, nor were copies that ended before
        // them, so look once more before waiting.
        if run_all(lanes) {
            shared.set_resting(false);
            continue;
        }
        if let Err(error) = sleep(lanes, shared) {
            lanes.iter().for_each(|lane| lane.kill(&format_args!("cannot wait for it: {error}")));
            return;
        }
        shared.set_resting(false);
        shared.wake.clear();
    }
}

/// Runs every lane once; returns whether any moved bytes.
fn run_all(lanes: &[Arc<Lane>]) -> bool {
    let has_moved = |lane: &Arc<Lane>| matches!(lane.run_once(CALL_BYTES), Progress::Moved(_));
    lanes.iter().filter(|lane| has_moved(lane)).count() > 0
}

/// Waits a moment for a GPU where chunks wait for it. Returns whether it has copied any.
fn is_copied_soon(lanes: &[Arc<Lane>]) -> bool {
    let waiting = || lanes.iter().filter(|lane| lane.awaits_copy()).count();
    let before = waiting();
    if before == 0 {
        return false;
    }
    let end = Instant::now() + COPY_SPIN;
    while Instant::now() < end {
        if waiting() < before {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Waits for new chunks and for the sockets of lanes that are blocked.
fn sleep(lanes: &[Arc<Lane>], shared: &Shared) -> io::Result<()> {
    let mut descriptors = vec![(shared.wake.as_fd(), Interest::Read)];
    let mut is_held = false;
    for lane in lanes {
        // What a lane has read and could not place, the socket does not show, nor a GPU's copies.
        let awaits_copy = lane.awaits_copy();
        is_held |= awaits_copy || lane.holds_bytes();
        descriptors.extend(lane.readiness().filter(|_| !awaits_copy));
    }
    wait(&descriptors, is_held.then_some(HELD_PAUSE)).map(drop)
}
