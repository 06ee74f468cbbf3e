//! Connects, accepts and goodbyes that nobody waits for in a call: begun, looked after in every
//! round, and asked for.

use std::task::Poll;
use std::time::{Duration, Instant};

use super::Engine;
use super::accept_queue::Accept;
use super::attempts::{Aim, Attempt};
use crate::completions::peer_state::PeerState;
use crate::error::{Error, Result};
use crate::peer::PeerStatus;
use crate::types::PeerKey;

impl Engine {
    /// Begins to accept, for a time.
    pub(crate) fn begin_accept(&mut self, accept: Accept, now: Instant) -> Result<()> {
        self.start_accept(&accept)?;
        self.begin(Aim::Accept(accept), None, self.commons.session.options.connect_timeout, now);
        Ok(())
    }

    /// Begins to connect, for a time.
    pub(crate) fn begin_connect(&mut self, name: &str, now: Instant) -> Result<PeerKey> {
        let key = self.start_connect(name)?;
        let time = self.commons.session.options.connect_timeout;
        self.begin(Aim::Connect(name.to_owned()), Some(key), time, now);
        Ok(key)
    }

    /// Begins to say goodbye, for a time; a peer that is not there is forgotten at once.
    pub(crate) fn begin_disconnect(&mut self, name: &str, now: Instant) -> Result<()> {
        let Some(key) = self.leave(name)? else { return Ok(()) };
        let time = self.commons.session.options.close_timeout;
        self.begin(Aim::Leave(name.to_owned()), Some(key), time, now);
        Ok(())
    }

    fn begin(&mut self, aim: Aim, peer: Option<PeerKey>, time: Duration, started_at: Instant) {
        self.attempts.begin(Attempt { aim, peer, started_at, time });
    }

    /// Begins to leave what has this name: a peer, which is returned if there is something to wait
    /// for, or an attempt.
    pub(crate) fn leave(&mut self, name: &str) -> Result<Option<PeerKey>> {
        if self.give_up(name) {
            return Ok(None);
        }
        let (key, peer) = self.peer(name)?;
        let was_over = peer.is_gone();
        self.start_disconnect(key);
        let departure = if was_over { Ok(Poll::Ready(())) } else { self.departure(key) };
        if let Ok(Poll::Pending) = departure {
            return Ok(Some(key));
        }
        self.forget(key);
        departure.map(|_| None)
    }

    /// Ends the attempt that has this name, and forgets a failure. Returns whether nothing of a
    /// peer is left.
    fn give_up(&mut self, name: &str) -> bool {
        if self.attempts.forget_failure(name) {
            return true;
        }
        match self.attempts.take(name) {
            Some(Attempt { aim: Aim::Accept(accept), peer: None, .. }) => {
                // Somebody may have come since the last round: that peer is left like any other.
                self.accept_queue.stop_accept(&accept).is_none()
            }
            _ => false,
        }
    }

    /// Ends the accepts of anyone for which nobody has come.
    pub(crate) fn give_up_anyone(&mut self) {
        for mut attempt in self.attempts.take_anyone() {
            if let Aim::Accept(accept) = &attempt.aim {
                attempt.peer = self.accept_queue.stop_accept(accept);
            }
            // Somebody has come since the last round.
            if attempt.peer.is_some() {
                self.attempts.begin(attempt);
            }
        }
    }

    /// The name of the peer that an accept of anyone has taken. Each one is answered once.
    pub(crate) fn poll_anyone(&mut self) -> Result<Poll<String>> {
        match self.attempts.next_of_anyone() {
            Some(outcome) => outcome.map(Poll::Ready),
            None if self.attempts.awaits_anyone() => Ok(Poll::Pending),
            None => Err(Error::PeerState {
                peer: String::new(),
                state: "not being accepted",
                cure: "begin an accept of anyone first",
            }),
        }
    }

    /// What the peer of this name is up to.
    pub(crate) fn peer_state(&self, name: &str) -> Result<PeerState> {
        self.check_open()?;
        if let Some(error) = self.attempts.failure(name) {
            return Ok(PeerState::Failed(error.clone()));
        }
        if self.accept_queue.awaits(name) {
            return Ok(PeerState::Accepting);
        }
        let (_, peer) = self.peer(name)?;
        Ok(match peer.status() {
            PeerStatus::Connecting => PeerState::Connecting,
            PeerStatus::Up if peer.is_left() => PeerState::Leaving,
            PeerStatus::Up => PeerState::Up,
            PeerStatus::Parted => PeerState::Parted,
            PeerStatus::Failed(error) => PeerState::Failed(error.clone()),
        })
    }

    /// Whether a peer that is being connected is up.
    ///
    /// # Errors
    /// What it has ended with; [`Error::Closed`] once the program has left it.
    pub(crate) fn arrival(&self, key: PeerKey) -> Result<Poll<()>> {
        match self.status(key) {
            _ if self.has_left(key) => Err(Error::Closed),
            // It may have been up and parted before anybody looked.
            Some(PeerStatus::Up | PeerStatus::Parted) => Ok(Poll::Ready(())),
            Some(PeerStatus::Failed(error)) => Err(error.clone()),
            Some(PeerStatus::Connecting) => Ok(Poll::Pending),
            None => Err(Error::Closed),
        }
    }

    /// Whether a peer that the program has left is gone.
    ///
    /// # Errors
    /// It went away in the middle of the goodbye.
    pub(crate) fn departure(&self, key: PeerKey) -> Result<Poll<()>> {
        match self.status(key) {
            None | Some(PeerStatus::Parted | PeerStatus::Failed(Error::Closed)) => {
                Ok(Poll::Ready(()))
            }
            Some(PeerStatus::Failed(error)) => Err(error.clone()),
            Some(PeerStatus::Connecting | PeerStatus::Up) => Ok(Poll::Pending),
        }
    }

    /// Looks after all attempts, and signals the event when one has ended. Returns whether one has.
    pub(super) fn settle_attempts(&mut self, now: Instant) -> bool {
        let mut attempts = self.attempts.take_running();
        let before = attempts.len();
        attempts.retain_mut(|attempt| match self.step_attempt(attempt, now) {
            Ok(Poll::Pending) => true,
            Ok(Poll::Ready(())) => {
                self.end_attempt(attempt, Ok(()));
                false
            }
            Err(error) => {
                self.end_attempt(attempt, Err(error));
                false
            }
        });
        let has_ended = attempts.len() < before;
        self.attempts.go_on(attempts);
        if has_ended {
            self.commons.ledger.transfers.completions().event().signal();
        }
        has_ended
    }

    fn step_attempt(&mut self, attempt: &mut Attempt, now: Instant) -> Result<Poll<()>> {
        if let (Aim::Accept(accept), None) = (&attempt.aim, attempt.peer) {
            attempt.peer = self.accept_queue.take_accepted(accept);
            if attempt.peer.is_none() {
                return self.step_lonely(accept, attempt, now);
            }
        }
        let Some(key) = attempt.peer else { return Err(Error::Closed) };
        let outcome = match attempt.aim {
            Aim::Accept(_) | Aim::Connect(_) => self.arrival(key),
            Aim::Leave(_) => self.departure(key),
        };
        match outcome {
            Ok(Poll::Pending) if attempt.is_overdue(now) => {
                Err(self.end_overdue(key, attempt.phase(), attempt.waited(now), now))
            }
            outcome => outcome,
        }
    }

    /// An accept for which nobody has come.
    fn step_lonely(
        &mut self,
        accept: &Accept,
        attempt: &Attempt,
        now: Instant,
    ) -> Result<Poll<()>> {
        if self.is_closed {
            self.accept_queue.stop_accept(accept);
            return Err(Error::Closed);
        }
        if !attempt.is_overdue(now) {
            return Ok(Poll::Pending);
        }
        Err(self.accept_overdue(accept, attempt.waited(now)))
    }

    fn end_attempt(&mut self, attempt: &Attempt, outcome: Result<()>) {
        let key = attempt.peer.unwrap_or_default();
        let name = self.name_of(key);
        let is_leave = matches!(attempt.aim, Aim::Leave(_));
        // Whoever has left the peer says goodbye to it.
        if is_leave || (outcome.is_err() && !self.has_left(key)) {
            self.forget(key);
        }
        match (attempt.name(), outcome) {
            (Some(_), Ok(())) => {}
            (Some(name), Err(error)) => {
                // The end of a peer was told already.
                if attempt.peer.is_none() {
                    self.tell_failure(name, &error);
                }
                self.attempts.failed(name, error);
            }
            (None, outcome) => {
                self.attempts.anyone_ended(outcome.map(|()| name.unwrap_or_default()));
            }
        }
    }
}
