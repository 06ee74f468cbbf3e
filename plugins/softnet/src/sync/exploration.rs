//! Threads whose order a test decides.
//!
//! In an exploration ([`explore`]) one thread runs at a time. Before it touches a lock, an atomic
//! or a waker, and before it waits, a scheduler says which thread goes on, by seed. Descriptors are
//! the system's own, so a test takes such as are ready at once when the other end has acted: events
//! and Unix sockets. Time stands still: a wait ends when a descriptor is ready, and never because
//! its time is over. When all threads wait, a wake-up was lost, and the exploration fails.
//!
//! Outside of explorations all this is the standard library's and the system's. Orderings weaker
//! than sequential consistency are not explored.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{LockResult, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};
use tcpx_comm::poll::{self, Interest};

/// Most steps of a scenario: a longer one repeats itself.
const MOST_STEPS: usize = 100_000;
/// Room for the deepest calls of a thread.
const STACK_BYTES: usize = 256 << 10;
const SEED: u64 = 20_261_125;
/// How many times the scheduler by priorities interrupts the thread that has the highest.
const INTERRUPTIONS: usize = 3;

thread_local! {
    static IS_EXPLORED: Cell<bool> = const { Cell::new(false) };
    static SLEEPERS: RefCell<Vec<Sleeper>> = const { RefCell::new(Vec::new()) };
}

/// A thread that waits, and for what.
struct Sleeper {
    thread: shuttle::thread::Thread,
    descriptors: Vec<(OwnedFd, Interest)>,
}

impl Sleeper {
    fn is_ready(&self) -> bool {
        let all: Vec<_> = self.descriptors.iter().map(|(fd, what)| (fd.as_fd(), *what)).collect();
        // An error ends the wait, which then finds it.
        poll::wait(&all, Some(Duration::ZERO)).map_or(true, |ready| ready.contains(&true))
    }
}

/// Runs the scenario again and again, each time with another order of its threads. Half of the
/// times the order is any order. In the other half, few interruptions come at bad moments.
pub(crate) fn explore(times: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    let run_scenario = move || {
        IS_EXPLORED.set(true);
        scenario();
        IS_EXPLORED.set(false);
    };
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    let any = RandomScheduler::new_from_seed(SEED, times.div_ceil(2));
    Runner::new(any, config.clone()).run(run_scenario.clone());
    let bad = PctScheduler::new_from_seed(SEED, INTERRUPTIONS, times.div_ceil(2));
    Runner::new(bad, config).run(run_scenario);
}

/// Returns the number of orders that a deep test explores, unless TCPX_TEST_INTERLEAVINGS asks for
/// others.
pub(crate) fn many(times: usize) -> usize {
    let asked = std::env::var("TCPX_TEST_INTERLEAVINGS").ok();
    asked.map_or(times, |asked| asked.parse().expect("a number"))
}

/// Another thread may go on here.
fn point() {
    if IS_EXPLORED.get() {
        wake();
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Ends the waits for what has become ready.
fn wake() {
    let is_ready = |sleeper: &mut Sleeper| sleeper.is_ready();
    let ready: Vec<_> =
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.extract_if(.., is_ready).collect());
    ready.iter().for_each(|sleeper| sleeper.thread.unpark());
}

pub(super) fn untrack<T: ?Sized>(_: &T) {
    point();
}

pub(super) fn before<T: ?Sized>(_: &T) {}

pub(super) fn after<T: ?Sized>(_: &T) {}

pub(super) fn acquired<T: ?Sized>(_: &T) {}

pub(super) fn released<T: ?Sized>(_: &T) {
    point();
}

/// Waits for a lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    if !IS_EXPLORED.get() {
        return mutex.lock();
    }
    point();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => shuttle::thread::yield_now(),
        }
    }
}

/// As [`poll::wait`].
pub(crate) fn wait(
    descriptors: &[(BorrowedFd<'_>, Interest)],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    if !IS_EXPLORED.get() {
        return poll::wait(descriptors, timeout);
    }
    loop {
        point();
        let ready = poll::wait(descriptors, Some(Duration::ZERO))?;
        if ready.contains(&true) || timeout == Some(Duration::ZERO) {
            return Ok(ready);
        }
        let own = |(fd, what): &(BorrowedFd<'_>, Interest)| Ok((fd.try_clone_to_owned()?, *what));
        let descriptors = descriptors.iter().map(own).collect::<io::Result<_>>()?;
        let (thread, me) = (shuttle::thread::current(), shuttle::thread::current().id());
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.push(Sleeper { thread, descriptors }));
        shuttle::thread::park();
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.retain(|other| other.thread.id() != me));
    }
}

/// As [`poll::Waker`].
#[derive(Debug)]
pub(crate) struct Waker(poll::Waker);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        poll::Waker::new().map(Self)
    }

    pub(crate) fn notify(&self) {
        point();
        self.0.notify();
    }

    pub(crate) fn clear(&self) {
        point();
        self.0.clear();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// As `std::thread`.
pub(crate) mod thread {
    use std::io;

    use super::{IS_EXPLORED, point};

    #[derive(Debug)]
    pub(crate) struct Builder(String);

    impl Builder {
        pub(crate) fn new() -> Self {
            Self(String::new())
        }

        pub(crate) fn name(self, name: String) -> Self {
            Self(name)
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            run: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            if !IS_EXPLORED.get() {
                return std::thread::Builder::new().name(self.0).spawn(run).map(JoinHandle::System);
            }
            let run_to_end = move || {
                let result = run();
                // Others see what it did last.
                point();
                result
            };
            shuttle::thread::Builder::new().name(self.0).spawn(run_to_end).map(JoinHandle::Explored)
        }
    }

    #[derive(Debug)]
    pub(crate) enum JoinHandle<T> {
        System(std::thread::JoinHandle<T>),
        Explored(shuttle::thread::JoinHandle<T>),
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn join(self) -> std::thread::Result<T> {
            match self {
                Self::System(thread) => thread.join(),
                Self::Explored(thread) => {
                    point();
                    thread.join()
                }
            }
        }
    }
}
