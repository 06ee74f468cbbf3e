//! Rounds of threads that do not wait: of the program, which asks for progress, and of workers.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tcpx_sys::is_forked;

use super::leader::LeaderState;
use super::shared::{EngineGuard, SharedEngine};
use super::wait::MANY_QUERIES;
use crate::error::{Error, Result};
use crate::types::PeerKey;

/// Number of rounds that a thread that does not lead makes at once, while they move something. The
/// leader does what is left then.
const MAX_ROUNDS_BESIDE: usize = 4;
/// Number of times that a call asks for copies between the link and a GPU before it makes another
/// round.
const POLLS_PER_ROUND: u32 = 4;

impl SharedEngine {
    /// Makes one round of progress. Returns whether anything moved.
    ///
    /// A copy between the link and a GPU takes about as long as a program that polls needs to come
    /// back. So copies are asked for first, and nothing else if that ends all of them. And the call
    /// goes on until they have finished, or for 20 µs; other threads may have the engine in
    /// between.
    pub(super) fn progress(&self) -> bool {
        let now = Instant::now();
        let mut has_moved = self.awaits_copies() && self.poll_copies();
        if !has_moved || self.awaits_copies() {
            has_moved |= self.progress_at(now);
            has_moved |= self.await_copies(now);
        }
        let answered = if has_moved { now.elapsed() } else { Duration::ZERO };
        if self.query_rate.record(answered) >= MANY_QUERIES
            && self.thread_leads.load(Ordering::Relaxed)
        {
            // The system gives its events to the thread that polls first, which is this thread. The
            // leader would be woken in vain again and again, and would not notice.
            self.poller.wake();
        }
        has_moved
    }

    /// Makes one round of progress at this time.
    pub(super) fn progress_at(&self, now: Instant) -> bool {
        let Some(mut guard) = self.try_lead() else {
            return self.engine().is_ok_and(|engine| self.round_without_lead(engine, now));
        };
        let Some(lead) = guard.lead.as_deref_mut().filter(|_| !is_forked()) else { return false };
        // As a thread that rests and is not woken. A thread that polls in a loop nearly always
        // finds nothing to do, and the less it does in between, the sooner it finds an event.
        let has_happened = self.poller.look(&mut lead.events);
        if lead.is_resting(now) && !has_happened && !self.poller.has_work() {
            return false;
        }
        self.engine().is_ok_and(|engine| self.round(lead, engine, now))
    }

    /// Makes a round of a leader that has polled for events, and does not wait after the round.
    fn round(&self, lead: &mut LeaderState, mut engine: EngineGuard<'_>, now: Instant) -> bool {
        self.poller.take_work();
        // The thread whose mark was just taken away may have handed in after the lock was taken.
        engine.post_handed_in();
        let moved = engine.progress(now, &mut lead.events);
        let rest = engine.rest(now);
        lead.set_rest(rest, moved);
        if self.poller.is_exported() {
            self.poller.set_alarm(lead.next_alarm(rest, moved, now));
        }
        moved
    }

    /// Makes a round of a thread that does not lead. The leader may have no processor to run on,
    /// when threads that poll have them all: so this thread asks the system too. The events that it
    /// gets are dealt with before the engine is released.
    fn round_without_lead(&self, mut engine: EngineGuard<'_>, now: Instant) -> bool {
        let mut events = Vec::new();
        let mut has_moved = false;
        for _ in 0..MAX_ROUNDS_BESIDE {
            self.poller.poll_beside(&mut events);
            let moved = engine.progress_beside(now, &mut events);
            has_moved |= moved;
            if !moved || !engine.wants_round() {
                break;
            }
        }
        has_moved
    }

    /// Asks for copies that are under way, in a call that began at this time. Returns whether
    /// anything moved.
    fn await_copies(&self, began: Instant) -> bool {
        let longest = Duration::from_micros(self.copy_spin_us.load(Ordering::Relaxed).into());
        let (mut has_moved, mut is_idle, mut polls) = (false, false, 0);
        while self.awaits_copies() && began.elapsed() < longest {
            std::hint::spin_loop();
            let have_finished = self.poll_copies();
            has_moved |= have_finished;
            polls += 1;
            // A round costs as much as a few polls. What it begins is copied with the rest.
            let is_due = have_finished || (!is_idle && polls % POLLS_PER_ROUND == 0);
            if is_due && self.awaits_copies() {
                is_idle = !self.progress_at(Instant::now());
                has_moved |= !is_idle;
            }
        }
        has_moved
    }

    /// Goes on with what waited for copies that have finished. Returns whether any has.
    fn poll_copies(&self) -> bool {
        self.engine().is_ok_and(|mut engine| engine.poll_unpacks(Instant::now()))
    }

    fn awaits_copies(&self) -> bool {
        self.copies_on_link.load(Ordering::Relaxed)
    }

    /// Records that a worker has finished something, for this peer or for any. Where no thread
    /// leads, the worker's thread makes a round.
    pub(super) fn handle_worker_progress(&self, peer: Option<PeerKey>) {
        let Ok(mut engine) = self.engine() else { return };
        let is_due = engine.handle_workers(peer);
        drop(engine);
        if is_due && self.try_lead().is_some() {
            self.progress();
        }
    }

    /// Makes one round of progress, unless another thread has the engine: that thread makes a round
    /// itself, or releases the engine soon.
    pub(super) fn try_progress(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let Some(mut guard) = self.try_lead() else { return Ok(()) };
        let Some(engine) = self.try_engine()? else { return Ok(()) };
        if let Some(lead) = guard.lead.as_deref_mut() {
            self.poller.look(&mut lead.events);
            self.round(lead, engine, Instant::now());
        }
        Ok(())
    }
}
