//! Connects, accepts and goodbyes that no call waits for: begun by a call, driven by every round,
//! and polled.
//!
//! Peers that operations and notifications go to. A peer that is absent or was lost is connected
//! first, if its connection info was loaded.
//!
//! An *attempt* is a connect, an accept or a goodbye that was only begun (`start_connect` and its
//! like). It ends with the errors of the call that waits.
//!
//! An operation that is posted to a lost or absent peer ends with the error of the new connection,
//! if the connect fails. Operations that were under way on a lost connection have failed, and are
//! not repeated.

use std::task::Poll;
use std::time::{Duration, Instant};

use slotmap::Key;
use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::types::{PreparedKey, TransferKey};

use super::accept_queue::Accept;
use super::attempts::{Attempt, AttemptKind};
use crate::completions::PeerState;
use crate::engine::{Engine, unknown};
use crate::error::{Error, Result};
use crate::peer::{Peer, PeerStatus};
use crate::types::PeerKey;

impl Engine {
    /// Begins to accept, for a time.
    pub(crate) fn begin_accept(&mut self, accept: Accept, now: Instant) -> Result<()> {
        self.start_accept(&accept)?;
        self.begin(
            AttemptKind::Accept(accept),
            None,
            self.resources.session.options.connect_timeout,
            now,
        );
        Ok(())
    }

    /// Begins to connect, for a time.
    pub(crate) fn begin_connect(&mut self, name: &str, now: Instant) -> Result<PeerKey> {
        let key = self.start_connect(name)?;
        let time = self.resources.session.options.connect_timeout;
        self.begin(AttemptKind::Connect(name.to_owned()), Some(key), time, now);
        Ok(key)
    }

    /// Begins to say goodbye, for a time; an absent peer is forgotten at once.
    pub(crate) fn begin_disconnect(&mut self, name: &str, now: Instant) -> Result<()> {
        let Some(key) = self.leave(name)? else { return Ok(()) };
        let time = self.resources.session.options.close_timeout;
        self.begin(AttemptKind::Leave(name.to_owned()), Some(key), time, now);
        Ok(())
    }

    fn begin(
        &mut self,
        aim: AttemptKind,
        peer: Option<PeerKey>,
        time: Duration,
        started_at: Instant,
    ) {
        self.meeting.attempts.begin(Attempt { aim, peer, started_at, time });
    }

    /// Begins to leave the peer or attempt of this name. Returns the peer if there is something to
    /// wait for.
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

    /// Ends the attempt of this name, and forgets a failure. Returns whether nothing of a peer is
    /// left.
    fn give_up(&mut self, name: &str) -> bool {
        if self.meeting.attempts.forget_failure(name) {
            return true;
        }
        match self.meeting.attempts.take(name) {
            Some(Attempt { aim: AttemptKind::Accept(accept), peer: None, .. }) => {
                // A peer may have come since the last round: it is left like any other.
                self.meeting.accept_queue.stop_accept(&accept).is_none()
            }
            _ => false,
        }
    }

    /// Ends the accepts of any peer that no peer has come for.
    pub(crate) fn give_up_accepts_of_any(&mut self) {
        for mut attempt in self.meeting.attempts.take_accepts_of_any() {
            if let AttemptKind::Accept(accept) = &attempt.aim {
                attempt.peer = self.meeting.accept_queue.stop_accept(accept);
            }
            // A peer has come since the last round.
            if attempt.peer.is_some() {
                self.meeting.attempts.begin(attempt);
            }
        }
    }

    /// Returns the name of the peer that an accept of any peer has taken. Each accept is answered
    /// once.
    pub(crate) fn poll_accept_of_any(&mut self) -> Result<Poll<String>> {
        match self.meeting.attempts.next_of_any() {
            Some(outcome) => outcome.map(Poll::Ready),
            None if self.meeting.attempts.awaits_any() => Ok(Poll::Pending),
            None => Err(Error::PeerState {
                peer: String::new(),
                state: "not being accepted",
                cure: "begin an accept of anyone first",
            }),
        }
    }

    /// Returns the state of the peer of this name.
    pub(crate) fn peer_state(&self, name: &str) -> Result<PeerState> {
        self.check_open()?;
        if let Some(error) = self.meeting.attempts.failure(name) {
            return Ok(PeerState::Failed(error.clone()));
        }
        if self.meeting.accept_queue.awaits(name) {
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

    /// Returns whether a connecting peer is up.
    ///
    /// # Errors
    /// The error that the peer ended with; [`Error::Closed`] once the program has left the peer.
    pub(crate) fn arrival(&self, key: PeerKey) -> Result<Poll<()>> {
        match self.status(key) {
            _ if self.has_left(key) => Err(Error::Closed),
            // The peer may have been up and parted before the first check.
            Some(PeerStatus::Up | PeerStatus::Parted) => Ok(Poll::Ready(())),
            Some(PeerStatus::Failed(error)) => Err(error.clone()),
            Some(PeerStatus::Connecting) => Ok(Poll::Pending),
            None => Err(Error::Closed),
        }
    }

    /// Returns whether a peer that the program has left is gone.
    ///
    /// # Errors
    /// The peer went away in the middle of the goodbye.
    pub(crate) fn departure(&self, key: PeerKey) -> Result<Poll<()>> {
        match self.status(key) {
            None | Some(PeerStatus::Parted | PeerStatus::Failed(Error::Closed)) => {
                Ok(Poll::Ready(()))
            }
            Some(PeerStatus::Failed(error)) => Err(error.clone()),
            Some(PeerStatus::Connecting | PeerStatus::Up) => Ok(Poll::Pending),
        }
    }

    /// Drives all attempts, and signals the event when an attempt has ended. Returns whether any
    /// has.
    pub(in crate::engine) fn poll_attempts(&mut self, now: Instant) -> bool {
        let mut attempts = self.meeting.attempts.take_running();
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
        self.meeting.attempts.go_on(attempts);
        if has_ended {
            self.resources.ledger.transfers.completions().event().signal();
        }
        has_ended
    }

    fn step_attempt(&mut self, attempt: &mut Attempt, now: Instant) -> Result<Poll<()>> {
        if let (AttemptKind::Accept(accept), None) = (&attempt.aim, attempt.peer) {
            attempt.peer = self.meeting.accept_queue.take_accepted(accept);
            if attempt.peer.is_none() {
                return self.poll_unbound(accept, attempt, now);
            }
        }
        let Some(key) = attempt.peer else { return Err(Error::Closed) };
        let outcome = match attempt.aim {
            AttemptKind::Accept(_) | AttemptKind::Connect(_) => self.arrival(key),
            AttemptKind::Leave(_) => self.departure(key),
        };
        match outcome {
            Ok(Poll::Pending) if attempt.is_overdue(now) => {
                Err(self.end_overdue(key, attempt.phase(), attempt.waited(now), now))
            }
            outcome => outcome,
        }
    }

    /// Drives an accept that no peer has come for.
    fn poll_unbound(
        &mut self,
        accept: &Accept,
        attempt: &Attempt,
        now: Instant,
    ) -> Result<Poll<()>> {
        if self.is_closed {
            self.meeting.accept_queue.stop_accept(accept);
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
        let is_leave = matches!(attempt.aim, AttemptKind::Leave(_));
        // The caller that has left the peer says goodbye to it.
        if is_leave || (outcome.is_err() && !self.has_left(key)) {
            self.forget(key);
        }
        match (attempt.name(), outcome) {
            (Some(_), Ok(())) => {}
            (Some(name), Err(error)) => {
                // The end of a peer was reported already.
                if attempt.peer.is_none() {
                    self.notify_connect_failure(name, &error);
                }
                self.meeting.attempts.failed(name, error);
            }
            (None, outcome) => {
                self.meeting
                    .attempts
                    .accept_of_any_ended(outcome.map(|()| name.unwrap_or_default()));
            }
        }
    }
}

impl Engine {
    /// Checks that operations on memory of these sessions may be prepared with a peer. The peer
    /// must be up, or connecting, or become so with the next post.
    pub(in crate::engine) fn check_reachable(
        &self,
        name: &str,
        mut sessions: impl Iterator<Item = SessionId>,
    ) -> Result<()> {
        let is_of: &dyn Fn(&SessionId) -> bool =
            match (self.present(name), self.meeting.infos.get(name)) {
                (Ok((_, peer)), _) => {
                    peer.check_requests()?;
                    &|session| peer.session() == session
                }
                (Err(_), Some(info)) => &|session| info.session == *session,
                (Err(unknown), None) => return Err(unknown),
            };
        match sessions.all(|session| is_of(&session)) {
            true => Ok(()),
            false => {
                let (peer, problem) = (Some(name.to_owned()), RemoteProblem::AnotherSession);
                Err(Error::Remote { peer, memory: None, problem })
            }
        }
    }

    /// Returns the peer of this name, which is connected if absent. Operations of a lost peer have
    /// failed, and are not repeated.
    pub(in crate::engine) fn reach(&mut self, name: &str) -> Result<PeerKey> {
        match self.present(name) {
            Ok((key, _)) => Ok(key),
            Err(unknown) if !self.meeting.infos.contains_key(name) => Err(unknown),
            Err(_) => self.begin_connect(name, Instant::now()),
        }
    }

    /// Does the same for a notification, which has no end of its own by which a program would learn
    /// that it was lost.
    ///
    /// # Errors
    /// The error of the peer with which notifications were lost, once, if the connection info still
    /// leads there.
    pub(in crate::engine) fn reach_with_note(&mut self, name: &str) -> Result<PeerKey> {
        match self.meeting.attempts.take_lost_notes(name) {
            Some((session, error)) if self.meeting.leads_to(name, &session) => Err(error),
            _ => self.reach(name),
        }
    }

    /// Returns the peer of this name, unless it was lost.
    fn present(&self, name: &str) -> Result<(PeerKey, &Peer)> {
        let (key, peer) = self.peer(name)?;
        match self.is_lost(name, peer) {
            true => Err(unknown(name, self.names.keys())),
            false => Ok((key, peer)),
        }
    }

    /// Returns whether a peer has failed, or has left and other connection info was loaded since,
    /// so that a post connects it again. A peer that has said goodbye is not lost.
    fn is_lost(&self, name: &str, peer: &Peer) -> bool {
        let Some(info) = self.meeting.infos.get(name) else { return false };
        let is_over = match peer.status() {
            PeerStatus::Connecting | PeerStatus::Up => false,
            PeerStatus::Parted => peer.session() != &info.session,
            PeerStatus::Failed(_) => true,
        };
        is_over && !peer.is_left()
    }

    /// Returns the peer that an operation goes to. While the operation is under way this is the
    /// peer of the post before. Otherwise it is the present peer of the name, if that is of the
    /// same session. That peer does not have the operation's list.
    pub(in crate::engine) fn peer_of(
        &mut self,
        prepared: PreparedKey,
        transfer: TransferKey,
    ) -> Result<PeerKey> {
        let operation = self.prepared.get(prepared).ok_or(Error::Closed)?;
        let is_idle = self.resources.ledger.transfers.get(transfer)?.is_complete();
        let now = self.names.get(&*operation.peer_name).filter(|_| is_idle);
        let has_moved = now.is_some_and(|now| *now != operation.peer);
        let before = self.peers.get(operation.peer).filter(|_| !has_moved);
        let is_lost = |peer: &Peer| is_idle && self.is_lost(&operation.peer_name, peer);
        if before.is_some_and(|peer| !is_lost(peer)) {
            return Ok(operation.peer);
        }
        let (name, session) = (operation.peer_name.clone(), operation.session);
        // A peer that was present and cannot be reached from here has been left.
        let is_known = self.names.contains_key(&*name) || self.meeting.infos.contains_key(&*name);
        if !operation.peer.is_null() && !is_known {
            return Err(Error::Closed);
        }
        self.check_reachable(&name, session.into_iter())?;
        let key = self.reach(&name)?;
        if let Some(operation) = self.prepared.get_mut(prepared) {
            operation.peer = key;
        }
        self.resources.ledger.transfers.move_to(transfer, key);
        Ok(key)
    }
}
