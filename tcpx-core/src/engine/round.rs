//! One round over everything that has something to do, and when the next one is due.
//!
//! The order of a round:
//!
//! 1. Take the events, give up what is overdue, and take in links. A peer that has proven itself is
//!    welcomed.
//! 2. Drive the peers that are due. A failed peer is ended in the same round, without waiting.
//! 3. Submit and poll the unpacks. Post what was gathered, and give slots back.
//! 4. Look at the counters, once a second. End what lingers, and attempts.
//!
//! After 50 µs a round leaves the other peers to the next round. A step of a lane ends after 256
//! KiB, where the thread copies, or 32 requests.

use std::time::{Duration, Instant};

use super::Engine;
use crate::peer::{Peer, PeerStatus};
use crate::reactor::Attention;
use crate::reactor::poller::{IoEvent, Target};
use crate::stats::stages::Activity;
use crate::transfer::batch::BatchNumber;
use crate::types::PeerKey;

/// Time after which a round leaves the other peers to the next round: other threads wait for the
/// lock.
const ROUND_TIME: Duration = Duration::from_micros(50);
/// Number of posts that are sent before the post returns.
const FEW: usize = 16;
/// Interval of checks whether lingering remains are free, or wait too long.
const LINGER_CHECK: Duration = Duration::from_millis(10);
/// Interval of checks whether the workers are held up.
const WORKERS_LOOK: Duration = Duration::from_millis(50);

/// Time at which the next round is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// At once: there is more to do.
    None,
    /// Soon: no event reports what is waited for.
    Poll,
    /// When something happens, or at this time.
    Until(Instant),
}

fn is_up(peer: &Peer) -> bool {
    matches!(peer.status(), PeerStatus::Up)
}

impl Engine {
    /// Makes one round, after these events, which it takes. Returns whether anything moved.
    pub(crate) fn progress(&mut self, now: Instant, events: &mut Vec<IoEvent>) -> bool {
        // The caller may have waited for the lock since `now`.
        let began = Instant::now();
        self.stages.round(now, self.resources.batch.submitting());
        self.has_posted = false;
        self.resting_until = None;
        self.grant_taken_notes();
        events.drain(..).for_each(|event| self.handle_event(event));
        self.agenda.begin(now);
        let mut moved = self.expire(now) | self.accept_links(now);
        for _ in 0..self.agenda.due() {
            let Some(key) = self.agenda.take() else { break };
            moved |= self.drive(key, now);
            if began.elapsed() > ROUND_TIME {
                break;
            }
        }
        moved |= self.unpack(now);
        self.look(now);
        let lingering = self.unpacking.lingering();
        let settled = self.unpacking.settle(now, &mut self.resources) | self.poll_attempts(now);
        if self.unpacking.lingering() < lingering {
            self.poll_handshakes();
        }
        self.has_news |= settled;
        self.resources.workers.spawn_if_blocked();
        self.book_time();
        moved | settled
    }

    /// Submits and polls the unpacks. Returns whether anything moved.
    fn unpack(&mut self, now: Instant) -> bool {
        self.unpack_beyond(None, now)
    }

    /// Submits and polls the unpacks alone, outside a round. Returns whether any has finished.
    pub(crate) fn poll_unpacks(&mut self, now: Instant) -> bool {
        self.unpack_beyond(Some(self.resources.batch.reached()), now)
    }

    /// Submits and polls the unpacks, and goes on with what has finished, unless that is no more
    /// than `known`.
    fn unpack_beyond(&mut self, known: Option<BatchNumber>, now: Instant) -> bool {
        match self.unpacking.round(&mut self.resources.batch) {
            Ok(finished) if known == Some(finished) => false,
            Ok(finished) => self.consume(now, finished),
            Err(failure) => {
                let (error, reached) = self.stop_unpacking(failure);
                self.end_all(&error, reached);
                true
            }
        }
    }

    /// Notifies peers of the notifications that the program has taken.
    fn grant_taken_notes(&mut self) {
        if !self.resources.ledger.notifications.has_due_reports() {
            return;
        }
        let mut told = Vec::new();
        self.resources.ledger.notifications.take_due_reports(&mut told);
        for (key, cost) in told {
            let connection = self.peers.get_mut(key).and_then(|peer| peer.connection_mut());
            if let Some(connection) = connection {
                connection.notes_taken(cost);
                self.agenda.mark(key);
            }
        }
    }

    /// Makes a round of a thread that does not lead. The leader rests as before, and is woken when
    /// something has become due sooner.
    pub(crate) fn progress_beside(&mut self, now: Instant, events: &mut Vec<IoEvent>) -> bool {
        let until = self.resting_until;
        let moved = self.progress(now, events);
        self.resting_until = until;
        moved
    }

    /// Records the time of the round that ends now.
    fn book_time(&mut self) {
        let (sending, receiving) = self.agenda.activity();
        let unpacking = self.resources.batch.is_unpacking();
        let under_way = Activity { sending, receiving, unpacking };
        let ended = std::mem::take(&mut self.ended);
        let submitting = self.resources.batch.submitting();
        self.stages.ended(Instant::now(), submitting, under_way, ended);
    }

    /// Takes note of an event on a descriptor.
    fn handle_event(&mut self, event: IoEvent) {
        let (Target::Link(key) | Target::Send(key, _) | Target::Receive(key, _)) = event.target
        else {
            self.meeting.poll_listener();
            return;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            if let Some(connection) = peer.connection_mut() {
                connection.wake(event);
            }
            self.agenda.mark(key);
        }
    }

    /// Takes note of a worker's result, for this peer or for any. Returns whether it gives a round
    /// something to do.
    pub(crate) fn handle_workers(&mut self, peer: Option<PeerKey>) -> bool {
        self.agenda.mark_awaiting(peer) || !self.is_settled()
    }

    /// Drives one peer a step.
    fn drive(&mut self, key: PeerKey, now: Instant) -> bool {
        if self.is_dialled_too_early(key) {
            self.agenda.reschedule(key, Attention::default());
            return false;
        }
        let Some(peer) = self.peers.get_mut(key) else { return false };
        let (was_up, was_leaving) = (is_up(peer), peer.is_leaving());
        let outcome = peer.progress(now, &mut self.resources);
        if let Some(hello) = peer.take_given_up() {
            self.meeting.note_given_up(hello);
        }
        let moved = match outcome {
            Ok(moved) => {
                let is_up = is_up(peer);
                self.has_news |= is_up != was_up;
                // The peer's successor may have waited for this.
                if peer.is_leaving() != was_leaving {
                    self.meeting.poll_listener();
                }
                if is_up && !was_up {
                    self.notify_peer_up(key);
                }
                moved
            }
            Err(error) => {
                self.step_failed(key, error, now);
                true
            }
        };
        self.reschedule(key, moved);
        moved
    }

    /// Records what a peer wants after it was driven. A peer that moved may move further.
    fn reschedule(&mut self, key: PeerKey, moved: bool) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        peer.note_ended(&mut self.ended);
        peer.update_gate();
        let wants = peer.attention();
        self.agenda.reschedule(key, Attention { again: wants.again | moved, ..wants });
    }

    /// Gives slots back of unpacked chunks, and posts what was gathered.
    fn consume(&mut self, now: Instant, finished: BatchNumber) -> bool {
        let mut any_moved = false;
        let mut holding = std::mem::take(&mut self.holding);
        self.agenda.take_holding(&mut holding);
        for key in holding.iter().copied() {
            let Some(peer) = self.peers.get_mut(key) else { continue };
            match peer.consume(now, finished, &mut self.resources) {
                Ok(moved) => {
                    self.reschedule(key, moved);
                    any_moved |= moved;
                }
                Err(error) => self.fail_peer(key, error),
            }
        }
        self.holding = holding;
        any_moved
    }

    /// Records that `count` operations were posted to a peer. The first few since the last round
    /// are sent at once; later ones go together in the next round. So do large batches, for which
    /// there may be no memory in a post, which must not end the process. A GPU begins at once with
    /// copies for what is sent: it takes longer than the way to the next round.
    ///
    /// `are_over`: whether they have ended already, as messages of no bytes may. Their program need
    /// not make another round, so nothing of them waits for a round.
    pub(super) fn posted(&mut self, key: PeerKey, count: usize, are_over: bool) {
        let is_first = !std::mem::replace(&mut self.has_posted, true);
        if !are_over && (!is_first || count > FEW) {
            self.agenda.mark(key);
        } else {
            let now = Instant::now();
            self.drive(key, now);
            if self.resources.session.copies_on_link && self.resources.batch.has_more() {
                self.unpack(now);
            }
        }
    }

    /// Records a message to a peer that concerns no channel. The first message since the last round
    /// leaves at once; later ones go together in the next round.
    pub(super) fn handle_output(&mut self, key: PeerKey) {
        let is_first = !std::mem::replace(&mut self.has_posted, true);
        if !is_first {
            return self.agenda.mark(key);
        }
        match self.peers.get_mut(key).map_or(Ok(false), Peer::flush) {
            Ok(true) => self.reschedule(key, false),
            // The peer must be reached first.
            Ok(false) => {
                self.drive(key, Instant::now());
            }
            Err(error) => {
                self.step_failed(key, error, Instant::now());
                self.reschedule(key, true);
            }
        }
    }

    /// Returns whether a round would find something to do, or must poll for it.
    pub(crate) fn wants_round(&self) -> bool {
        let batch = &self.resources.batch;
        let has_more = self.agenda.due() > 0 || self.meeting.is_due() || batch.has_more();
        let asks = batch.is_unpacking() && self.unpacking.is_to_be_asked(batch);
        has_more || self.agenda.is_polling() || asks || self.is_due_sooner()
    }

    /// Returns whether a time has come closer since the leader began to rest.
    fn is_due_sooner(&self) -> bool {
        self.resting_until.is_some_and(|until| self.next_time(Instant::now()) < until)
    }

    /// Returns when the next round is due, for the thread that rests until then.
    pub(crate) fn rest(&mut self, now: Instant) -> Rest {
        let rest = self.next_round(now);
        self.resting_until = if let Rest::Until(at) = rest { Some(at) } else { None };
        rest
    }

    fn next_round(&self, now: Instant) -> Rest {
        let batch = &self.resources.batch;
        if self.agenda.due() > 0 || self.meeting.is_due() || batch.has_more() {
            return Rest::None;
        }
        let listener = self.meeting.attention();
        let asks = self.unpacking.is_to_be_asked(batch);
        if self.agenda.is_polling() || listener.polls || asks {
            return Rest::Poll;
        }
        Rest::Until(self.next_time(now))
    }

    /// Returns the time of the next work that no descriptor reports.
    fn next_time(&self, now: Instant) -> Instant {
        let listener = self.meeting.attention().timeout;
        let lingering = (self.unpacking.lingering() > 0).then(|| now + LINGER_CHECK);
        let workers = self.resources.workers.have_jobs().then(|| now + WORKERS_LOOK);
        let attempts = self.meeting.next_overdue();
        let overdue = self.deadlines.next();
        let timers = [self.agenda.next_timer(), listener, lingering, workers, attempts, overdue];
        let look = self.watch.schedule.next_at(now);
        timers.into_iter().flatten().fold(look, Instant::min)
    }
}
