//! Queue of jobs: chooses the next job, and decides whether another thread is needed. Pure: time is
//! an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use slotmap::{SlotMap, new_key_type};

/// Number of threads for jobs that do not block.
const QUICK_THREADS: usize = 2;
/// Largest number of threads, blocked ones included. Further jobs wait until one comes back.
const MAX_THREADS: usize = 64;
/// Time after which a step counts as blocked.
pub(super) const BLOCKED_AFTER: Duration = Duration::from_millis(50);

new_key_type! {
    /// Key of a step in progress.
    pub(super) struct RunKey;
}

/// NextAction action of a thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextAction<J> {
    /// A step of this job. [`Queue::step_ended`] reports its end.
    Run(J, RunKey),
    /// A wait, at most until a job's pause is over.
    Wait(Option<Duration>),
}

/// Jobs that wait for a thread, and the state of the threads.
pub(super) struct Queue<J> {
    ready: VecDeque<J>,
    /// Paused jobs, by the end of their pause, and then by their number.
    later: BTreeMap<(Instant, u64), J>,
    /// Number of jobs that have paused.
    pauses: u64,
    /// Start time of each step in progress.
    running: SlotMap<RunKey, Instant>,
    threads: usize,
    waiting: usize,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            later: BTreeMap::new(),
            pauses: 0,
            running: SlotMap::with_key(),
            threads: 0,
            waiting: 0,
        }
    }
}

impl<J> std::fmt::Debug for Queue<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("ready", &self.ready.len())
            .field("later", &self.later.len())
            .field("running", &self.running)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl<J> Queue<J> {
    /// Adds a job that can go on at once.
    pub(super) fn push(&mut self, job: J) {
        self.ready.push_back(job);
    }

    /// Adds a job that can go on at this time.
    pub(super) fn push_later(&mut self, job: J, at: Instant) {
        self.later.insert((at, self.pauses), job);
        self.pauses += 1;
    }

    /// Returns the next action of the calling thread. Jobs go on in the order in which they can.
    pub(super) fn next(&mut self, now: Instant) -> NextAction<J> {
        // A job for each peer that is being connected may pause here. Only the first job is
        // checked.
        while let Some(first) = self.later.first_entry()
            && first.key().0 <= now
        {
            self.ready.push_back(first.remove());
        }
        match self.ready.pop_front() {
            Some(job) => NextAction::Run(job, self.running.insert(now)),
            None => {
                let soonest = self.later.first_key_value().map(|((at, _), _)| *at);
                NextAction::Wait(soonest.map(|at| at.saturating_duration_since(now)))
            }
        }
    }

    /// Notes that a step is over.
    pub(super) fn step_ended(&mut self, run: RunKey) {
        self.running.remove(run);
    }

    /// Returns whether a job waits that no thread will take soon.
    pub(super) fn wants_thread(&self, now: Instant) -> bool {
        let is_blocked = |began: &&Instant| now.saturating_duration_since(**began) >= BLOCKED_AFTER;
        let blocked = self.running.values().filter(is_blocked).count();
        let jobs = self.ready.len() + self.later.len().min(1);
        jobs > self.waiting
            && self.threads < MAX_THREADS
            && self.threads.saturating_sub(blocked) < QUICK_THREADS
    }

    /// Returns the number of threads that have begun and not ended.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn thread_started(&mut self) {
        self.threads += 1;
    }

    pub(super) fn thread_ended(&mut self) {
        self.threads -= 1;
    }

    /// Notes that a thread is idle, and will be woken.
    pub(super) fn thread_waits(&mut self) {
        self.waiting += 1;
    }

    pub(super) fn thread_woke(&mut self) {
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn run(queue: &mut Queue<u32>, now: Instant) -> (u32, RunKey) {
        match queue.next(now) {
            NextAction::Run(job, run) => (job, run),
            NextAction::Wait(time) => panic!("nothing to do for {time:?}"),
        }
    }

    #[test]
    fn jobs_go_on_in_order_and_not_before_their_pause_is_over() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.push(1);
        queue.push_later(2, now + 2 * SHORT);
        queue.push_later(3, now + SHORT);
        assert_eq!(run(&mut queue, now).0, 1);
        assert_eq!(queue.next(now), NextAction::Wait(Some(SHORT)));
        assert_eq!(run(&mut queue, now + SHORT).0, 3);
        assert_eq!(run(&mut queue, now + 2 * SHORT).0, 2);
        assert_eq!(queue.next(now + 2 * SHORT), NextAction::Wait(None));
    }

    #[test]
    fn jobs_whose_pauses_are_over_go_on_in_the_order_in_which_they_ended() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for job in [3, 1, 4, 1, 5, 9, 2, 6] {
            queue.push_later(job, now + job * SHORT);
        }
        let jobs = [(); 8].map(|()| run(&mut queue, now + 9 * SHORT).0);
        assert_eq!(jobs, [1, 1, 2, 3, 4, 5, 6, 9]);
    }

    #[test]
    fn another_thread_is_wanted_when_those_that_are_there_are_held_up() {
        let mut queue = Queue::default();
        let now = Instant::now();
        assert!(!queue.wants_thread(now), "there is nothing to do");
        for threads in 0..QUICK_THREADS {
            queue.push(1);
            assert!(queue.wants_thread(now), "{threads} threads are busy");
            queue.thread_started();
            run(&mut queue, now);
        }
        queue.push(2);
        assert!(!queue.wants_thread(now + SHORT), "they will be through soon");
        assert!(queue.wants_thread(now + BLOCKED_AFTER));
        queue.thread_started();
        let (_, last) = run(&mut queue, now + BLOCKED_AFTER);
        queue.push(3);
        assert!(queue.wants_thread(now + BLOCKED_AFTER), "two do not count");
        queue.step_ended(last);
        queue.thread_waits();
        assert!(!queue.wants_thread(now + BLOCKED_AFTER), "one rests, and takes it");
        queue.push(4);
        assert!(queue.wants_thread(now + BLOCKED_AFTER), "it cannot take both");
    }

    #[test]
    fn threads_that_never_come_back_are_bounded() {
        let mut queue = Queue::default();
        let mut now = Instant::now();
        let mut begun = 0;
        for job in 0..1_000 {
            queue.push(job);
            now += BLOCKED_AFTER;
            if queue.wants_thread(now) {
                queue.thread_started();
                run(&mut queue, now);
                begun += 1;
            }
        }
        assert_eq!(begun, MAX_THREADS);
    }
}
