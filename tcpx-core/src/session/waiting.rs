//! Loop of a thread that waits for something of a session: the thread leads, or the leader notifies
//! it.
//!
//! Every blocking call (`accept`, `connect`, `wait`, `disconnect`) is a loop of lock, round, check,
//! unlock and pause, with a deadline. The progress thread is the same loop without an end. After
//! each round the leader hands the lock over to the thread that waits for it, if there is one.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tcpx_sys::is_forked;

use super::shared::{EngineGuard, LeadGuard, SharedEngine};
use super::wait::{LONGEST_STAND_BACK, STAND_BACK, WaitLimit};
use crate::completions::signals::{EventCount, LONGEST_WAIT};
use crate::engine::Engine;
use crate::error::{Error, Result};

impl SharedEngine {
    /// Makes the rounds until stopped, except while the program makes them. For the progress
    /// thread, which is unparked to stop.
    pub(super) fn run_progress_thread(&self, stopped: &AtomicBool) -> Result<()> {
        while !stopped.load(Ordering::SeqCst) {
            let mut since = Instant::now();
            let check = |_: &mut Engine| {
                let asked_often = self.query_rate.is_frequent(&mut since, Instant::now());
                let is_over =
                    asked_often || self.waiters.is_any() || stopped.load(Ordering::SeqCst);
                Ok(if is_over { Poll::Ready(()) } else { Poll::Pending })
            };
            // Before the first look at the waits: see `take_over`.
            self.thread_leads.store(true, Ordering::SeqCst);
            let limit = WaitLimit::unlimited();
            let served = self.lead_or_listen(&self.changed, limit, check, |_, _, _| Error::Closed);
            self.thread_leads.store(false, Ordering::Relaxed);
            served?;
            let Range { start: mut stand_back, end: longest } = self.stand_back();
            let mut ended = 0;
            while !stopped.load(Ordering::SeqCst) {
                let mut since = Instant::now();
                self.waiters.stand_back(&mut ended, stand_back, LONGEST_WAIT);
                let asked_often = self.query_rate.is_frequent(&mut since, Instant::now());
                if !asked_often && !self.waiters.is_any() {
                    break;
                }
                stand_back = (2 * stand_back).min(longest);
            }
        }
        Ok(())
    }

    /// Has the progress thread lead, unless a thread of the program waits.
    pub(super) fn arm(&self) {
        self.query_rate.clear();
        // One that is about to stand back does not: it finds that it was unparked.
        self.unpark_thread();
    }

    /// Returns the time for which the progress thread stands back, at first and at most.
    fn stand_back(&self) -> Range<Duration> {
        #[cfg(test)]
        if let Some(time) = self.stand_back.get() {
            return *time..*time;
        }
        STAND_BACK..LONGEST_STAND_BACK
    }

    /// Makes progress, or waits for other threads to, until `check` has an answer. `on_deadline`
    /// says what was missing.
    pub(crate) fn wait<T>(
        &self,
        limit: WaitLimit,
        check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        self.wait_for(&self.changed, limit, check, on_deadline)
    }

    /// Waits for an answer that changes when a transfer becomes complete, and not before.
    pub(super) fn wait_for_transfer<T>(
        &self,
        limit: WaitLimit,
        check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        self.wait_for(&self.completed, limit, check, on_deadline)
    }

    /// Waits as a thread of the program.
    fn wait_for<T>(
        &self,
        news: &EventCount,
        limit: WaitLimit,
        check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        let waiter = self.waiters.begin();
        let began = Instant::now();
        let outcome = self.lead_or_listen(news, limit, check, on_deadline);
        // The next wait may follow at once.
        self.query_rate.record(began.elapsed());
        drop(waiter);
        outcome
    }

    fn lead_or_listen<T>(
        &self,
        news: &EventCount,
        limit: WaitLimit,
        mut check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        loop {
            let listening = news.listen();
            if is_forked() {
                return Err(Error::Forked);
            }
            if let Some(lead) = self.try_lead() {
                drop(listening);
                let outcome = self.lead(lead, limit, check, on_deadline);
                if self.poller.is_exported() {
                    // The program waits for the next round by itself.
                    self.poller.wake();
                }
                return outcome;
            }
            let mut engine = self.lock()?;
            let now = Instant::now();
            let seen = check(&mut engine);
            if matches!(seen, Ok(Poll::Pending)) && !limit.is_over(now) {
                // The call has only checked. A notification would end its own wait.
                drop(engine);
                self.take_over();
                listening.wait(limit.clamp(LONGEST_WAIT, now));
                continue;
            }
            let mut engine = EngineGuard { shared: self, engine };
            return match seen? {
                Poll::Ready(value) => Ok(value),
                Poll::Pending => Err(on_deadline(&mut engine, limit.waited(now), now)),
            };
        }
    }

    /// Ends the lead of the progress thread, if a thread of the program waits: what that thread
    /// waits for then wakes one thread instead of two.
    fn take_over(&self) {
        // Either the progress thread sees the wait before it pauses, or this thread sees its lead.
        if self.waiters.is_any() && self.thread_leads.load(Ordering::SeqCst) {
            self.poller.wake();
        }
    }

    /// Leads until `check` has an answer.
    fn lead<T>(
        &self,
        mut guard: LeadGuard<'_>,
        limit: WaitLimit,
        mut check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        let Some(lead) = guard.lead.as_deref_mut() else { return Err(Error::Closed) };
        lead.clear_rest();
        loop {
            self.poller.take_work();
            let mut engine = self.lock()?;
            let now = Instant::now();
            let moved = engine.progress(now, &mut lead.events);
            if let Poll::Ready(value) = check(&mut engine)? {
                return Ok(value);
            }
            if limit.is_over(now) {
                return Err(on_deadline(&mut engine, limit.waited(now), now));
            }
            let rest = engine.rest(now);
            let (has_completed, has_news) = (engine.take_completed(), engine.poll_peers());
            // The thread that waits for the lock is next.
            parking_lot::MutexGuard::unlock_fair(engine);
            if has_completed {
                self.completed.notify();
            }
            if has_news {
                self.changed.notify();
            }
            lead.pause(&self.poller, rest, moved, limit);
        }
    }
}
