//! Waiting of a thread: with a deadline, for the descriptors of a session, and behind threads that
//! have asked before.
//!
//! A thread that asks for progress while another one leads asks the system as well, because the
//! leader may have no processor to run on. The progress thread stands back while the program
//! waits, and as long as it asks at least every 50 µs or waits for a fifth of its time. A program
//! with an event loop of its own waits on the same set of descriptors ([`EventSet`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::{Error, Result};
use crate::reactor::poller::Poller;

/// Time limit of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    started_at: Instant,
    ends_at: Option<Instant>,
}

impl WaitLimit {
    pub(crate) fn for_time(time: Duration) -> Self {
        let started_at = Instant::now();
        Self { started_at, ends_at: started_at.checked_add(time) }
    }

    pub(crate) fn unlimited() -> Self {
        Self { started_at: Instant::now(), ends_at: None }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ends_at.is_some_and(|ends_at| now >= ends_at)
    }

    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started_at)
    }

    /// Returns the part of this time that is left before the limit.
    pub(super) fn clamp(&self, time: Duration, now: Instant) -> Duration {
        let left = self.ends_at.map(|ends_at| ends_at.saturating_duration_since(now));
        left.map_or(time, |left| left.min(time))
    }
}

/// Descriptor that is readable when the completion event is, or a round of progress is due.
#[derive(Debug, Default)]
pub(super) struct EventSet(OnceLock<OwnedFd>);

impl EventSet {
    /// Returns the descriptor, which is made when first requested.
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

/// Time for which the progress thread stands back before it checks whether the program still asks.
pub(super) const STAND_BACK: Duration = Duration::from_micros(200);
/// Longest time to stand back, where the program has asked all the time: each check takes the
/// processor of one of its threads. A peer may wait this long once, after the program has stopped
/// asking.
pub(super) const LONGEST_STAND_BACK: Duration = Duration::from_millis(1);
/// Interval of queries at which the program needs no progress thread beside it.
const FREQUENT_INTERVAL: Duration = Duration::from_micros(50);
/// Number of queries below which their rate is unknown.
const MIN_QUERIES: u32 = 4;
/// Number of queries since the last check of the progress thread after which it should check.
pub(super) const MANY_QUERIES: u32 = 32;
/// Time of an answer, caused by much work, in which the program could have asked once more.
const ANSWER_TIME: Duration = Duration::from_micros(10);

/// Rate at which the program has asked lately.
#[derive(Debug, Default)]
pub(super) struct QueryRate {
    queries: AtomicU32,
}

impl QueryRate {
    /// Records one more query, which took this long to answer. Returns the number of queries
    /// since counting began.
    pub(super) fn record(&self, answered: Duration) -> u32 {
        let more = answered.as_micros() / ANSWER_TIME.as_micros();
        // At most the number of queries in an hour.
        let more = u32::try_from(more).unwrap_or(1 << 28).min(1 << 28);
        self.queries.fetch_add(1 + more, Ordering::Relaxed).saturating_add(1 + more)
    }

    /// Begins to count anew.
    pub(super) fn clear(&self) {
        self.queries.store(0, Ordering::Relaxed);
    }

    /// Returns whether the program has asked often, of all queries since `since`. Counting begins
    /// anew after the answer yes, and after an answer about a time long enough for few queries to
    /// count.
    ///
    /// A leading thread checks after each round. Where each operation needs two rounds, too few
    /// queries come between two checks. A count of those alone would let the thread lead for
    /// ever.
    pub(super) fn is_frequent(&self, since: &mut Instant, now: Instant) -> bool {
        let time = now.saturating_duration_since(*since);
        let queries = self.queries.load(Ordering::Relaxed);
        let is_frequent =
            queries >= MIN_QUERIES && time <= FREQUENT_INTERVAL.saturating_mul(queries);
        if is_frequent || time >= FREQUENT_INTERVAL.saturating_mul(MIN_QUERIES) {
            *since = now;
            // Queries that come in between are lost, which are few.
            self.clear();
        }
        is_frequent
    }
}

/// Threads of the program that wait. One of them leads while the progress thread stands back.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: AtomicU32,
    /// Number of waits that have ended; it wraps around.
    ended: AtomicU32,
    /// Whether the progress thread rests until the last wait ends.
    rests: AtomicBool,
    progress_thread: OnceLock<Thread>,
}

/// Wait of one thread of the program. Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct Waiter<'a>(&'a Waiters);

impl Waiters {
    /// Counts one more wait, until the result is dropped.
    pub(super) fn begin(&self) -> Waiter<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiter(self)
    }

    /// Returns whether a thread of the program waits.
    pub(super) fn is_any(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Returns whether a wait is under way, and no wait has ended since `ended` was updated. A
    /// program whose waits are short never ends a rest, which takes a call of the system.
    fn is_long(&self, ended: &mut u32) -> bool {
        let before = std::mem::replace(ended, self.ended.load(Ordering::SeqCst));
        *ended == before && self.is_any()
    }

    /// Lets the progress thread, which calls this, stand back for `time`. If a wait was under way
    /// for all the time since the last call with this `ended`, the thread stands back until the
    /// last wait ends, for at most `longest`. Unparking the thread ends the call.
    pub(super) fn stand_back(&self, ended: &mut u32, time: Duration, longest: Duration) {
        if !self.is_long(ended) {
            return std::thread::park_timeout(time);
        }
        self.progress_thread.get_or_init(std::thread::current);
        self.rests.store(true, Ordering::SeqCst);
        // The last wait may have ended before the mark was set.
        if self.is_any() {
            std::thread::park_timeout(longest);
        }
        self.rests.store(false, Ordering::SeqCst);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        let was_last = self.0.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.0.rests.load(Ordering::SeqCst) {
            self.0.progress_thread.get().inspect(|thread| thread.unpark());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_last_long_wait_ends_the_rest_of_the_progress_thread() {
        let (waiters, hour) = (Waiters::default(), Duration::from_secs(3600));
        let began = Instant::now();
        let [first, last] = [(); 2].map(|()| waiters.begin());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut ended = 0;
                while waiters.is_any() {
                    waiters.stand_back(&mut ended, Duration::ZERO, hour);
                }
            });
            let await_rest = || {
                while !waiters.rests.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            };
            await_rest();
            drop(first);
            assert!(waiters.is_any());
            drop(last);
        });
        assert!(began.elapsed() < hour && !waiters.is_any());
    }

    #[test]
    fn a_wait_is_long_from_the_second_look_on() {
        let (waiters, mut ended) = (Waiters::default(), 0);
        assert!(!waiters.is_long(&mut ended), "there is none");
        drop(waiters.begin());
        let waiter = waiters.begin();
        assert_eq!([(); 2].map(|()| waiters.is_long(&mut ended)), [false, true]);
        drop(waiter);
        assert_eq!([(); 2].map(|()| waiters.is_long(&mut ended)), [false; 2]);
    }

    #[test]
    fn nothing_lasts_longer_than_its_limit() {
        let (second, limit) =
            (Duration::from_secs(1), WaitLimit::for_time(Duration::from_millis(10)));
        let almost = limit.started_at + Duration::from_micros(9_990);
        assert_eq!(limit.clamp(second, almost), Duration::from_micros(10));
        assert!(!limit.is_over(almost));
        let over = limit.started_at + second;
        assert!(limit.is_over(over));
        assert_eq!((limit.clamp(second, over), limit.waited(over)), (Duration::ZERO, second));
        assert_eq!(WaitLimit::unlimited().clamp(second, over), second);
    }

    #[test]
    fn only_many_questions_in_a_short_time_are_often() {
        let query_rate = QueryRate::default();
        let mut since = Instant::now();
        let mut is_frequent = |queries: u32, time: Duration| {
            for _ in 0..queries {
                query_rate.record(ANSWER_TIME / 2);
            }
            let now = since + time;
            query_rate.is_frequent(&mut since, now)
        };
        assert!(!is_frequent(0, FREQUENT_INTERVAL * MIN_QUERIES));
        assert!(!is_frequent(MIN_QUERIES - 1, FREQUENT_INTERVAL * MIN_QUERIES));
        assert!(is_frequent(MIN_QUERIES, FREQUENT_INTERVAL * MIN_QUERIES));
        assert!(!is_frequent(MIN_QUERIES, FREQUENT_INTERVAL * (MIN_QUERIES + 1)));
        assert!(!is_frequent(1_000, Duration::from_secs(1)), "a loop with other work in it");
        assert!(is_frequent(100, STAND_BACK));
        assert!(!is_frequent(0, STAND_BACK), "they were counted");
        query_rate.record(STAND_BACK / 2);
        assert!(is_frequent(0, STAND_BACK), "it had long answers");
        query_rate.record(Duration::MAX);
        assert!(is_frequent(0, STAND_BACK));
    }

    #[test]
    fn questions_between_many_looks_count_together() {
        let query_rate = QueryRate::default();
        let began = Instant::now();
        let mut since = began;
        // Two queries between one check and the next, repeatedly.
        let looks = (1..=10).map(|look| {
            query_rate.record(Duration::ZERO);
            query_rate.record(Duration::ZERO);
            query_rate.is_frequent(&mut since, began + look * FREQUENT_INTERVAL / 2)
        });
        let seen: Vec<bool> = looks.collect();
        assert_eq!(seen, [false, true].repeat(5));
    }
}
