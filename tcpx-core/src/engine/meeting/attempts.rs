//! Connects, accepts and goodbyes that go on while the program does something else, with their
//! deadlines and results. Pure.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::SessionId;

use super::accept_queue::Accept;
use crate::error::{Error, Phase, Result};
use crate::types::PeerKey;

/// Goal of an attempt.
#[derive(Debug)]
pub(super) enum AttemptKind {
    Accept(Accept),
    Connect(String),
    Leave(String),
}

/// Attempt that is under way.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) aim: AttemptKind,
    /// Peer of the attempt; `None`: no peer has come yet.
    pub(super) peer: Option<PeerKey>,
    pub(super) started_at: Instant,
    pub(super) time: Duration,
}

impl Attempt {
    pub(super) fn phase(&self) -> Phase {
        match self.aim {
            AttemptKind::Accept(_) => Phase::Accept,
            AttemptKind::Connect(_) => Phase::Connect,
            AttemptKind::Leave(_) => Phase::Close,
        }
    }

    /// Returns the name that the attempt occupies. An accept of any peer has none before a peer
    /// comes.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.aim {
            AttemptKind::Accept(Accept::Named(name))
            | AttemptKind::Connect(name)
            | AttemptKind::Leave(name) => Some(name),
            AttemptKind::Accept(Accept::Anyone(_)) => None,
        }
    }

    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started_at)
    }

    /// Returns the time at which the attempt is overdue; `None`: never.
    fn ends_at(&self) -> Option<Instant> {
        self.started_at.checked_add(self.time)
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.waited(now) >= self.time
    }
}

/// Attempts of a session.
#[derive(Debug, Default)]
pub(in crate::engine) struct Attempts {
    running: Vec<Attempt>,
    /// Errors of the last failed attempts, by name.
    failures: HashMap<String, Error>,
    /// Sessions and errors of peers with which notifications were lost, by name.
    lost_notes: HashMap<String, (SessionId, Error)>,
    /// Results of accepts of any peer, in the order in which they ended.
    anyone: VecDeque<Result<String>>,
}

impl Attempts {
    /// Begins an attempt. The failure of an earlier attempt with the name is forgotten.
    pub(super) fn begin(&mut self, attempt: Attempt) {
        self.running.push(attempt);
    }

    /// Takes out all attempts that are under way; [`go_on`](Self::go_on) brings them back.
    pub(super) fn take_running(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.running)
    }

    /// Returns the time at which the first attempt is overdue.
    pub(in crate::engine) fn next_overdue(&self) -> Option<Instant> {
        self.running.iter().filter_map(Attempt::ends_at).min()
    }

    /// Puts back attempts that are still under way.
    pub(super) fn go_on(&mut self, running: Vec<Attempt>) {
        self.running = running;
    }

    /// Records that an attempt with a name has failed.
    pub(super) fn failed(&mut self, name: &str, error: Error) {
        self.failures.insert(name.to_owned(), error);
    }

    /// Records the result of an accept of any peer.
    pub(super) fn accept_of_any_ended(&mut self, outcome: Result<String>) {
        self.anyone.push_back(outcome);
    }

    /// Returns why the last attempt with this name has failed, if it has and no other followed.
    pub(super) fn failure(&self, name: &str) -> Option<&Error> {
        self.failures.get(name)
    }

    /// Forgets the failure of a name that has another use. Returns whether an attempt with it had
    /// failed.
    pub(super) fn forget_failure(&mut self, name: &str) -> bool {
        self.lost_notes.remove(name);
        self.failures.remove(name).is_some()
    }

    /// Forgets the failures of names that are not used any more.
    pub(super) fn forget_failures(&mut self, is_it: impl Fn(&str) -> bool) {
        self.lost_notes.retain(|name, _| !is_it(name));
        self.failures.retain(|name, _| !is_it(name));
    }

    /// Records that notifications were lost with a peer of this name and session.
    pub(super) fn notes_lost(&mut self, name: &str, session: SessionId, error: Error) {
        self.lost_notes.insert(name.to_owned(), (session, error));
    }

    /// Takes out the session and the error of the peer with which notifications were lost.
    pub(super) fn take_lost_notes(&mut self, name: &str) -> Option<(SessionId, Error)> {
        // No name is hashed for each notification.
        if self.lost_notes.is_empty() { None } else { self.lost_notes.remove(name) }
    }

    /// Takes out the attempt of this name.
    pub(super) fn take(&mut self, name: &str) -> Option<Attempt> {
        let index = self.running.iter().position(|attempt| attempt.name() == Some(name))?;
        Some(self.running.swap_remove(index))
    }

    /// Takes out the accepts of any peer that no peer has come for.
    pub(super) fn take_accepts_of_any(&mut self) -> Vec<Attempt> {
        let is_idle = |attempt: &mut Attempt| attempt.name().is_none() && attempt.peer.is_none();
        self.running.extract_if(.., is_idle).collect()
    }

    /// Returns the result of the next accept of any peer that has ended. `None`: none has.
    pub(super) fn next_of_any(&mut self) -> Option<Result<String>> {
        self.anyone.pop_front()
    }

    /// Returns whether an accept of any peer is under way.
    pub(super) fn awaits_any(&self) -> bool {
        self.running.iter().any(|attempt| attempt.name().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(aim: AttemptKind, started_at: Instant) -> Attempt {
        Attempt { aim, peer: None, started_at, time: Duration::from_secs(30) }
    }

    #[test]
    fn an_attempt_is_overdue_when_its_time_has_passed() {
        let start = Instant::now();
        let attempt = attempt(AttemptKind::Connect("a".to_owned()), start);
        assert!(!attempt.is_overdue(start + Duration::from_millis(29_999)));
        assert!(attempt.is_overdue(start + Duration::from_secs(30)));
        assert!(!attempt.is_overdue(start - Duration::from_secs(1)), "a clock that was read late");
    }

    #[test]
    fn a_failure_is_that_of_the_last_attempt_with_the_name() {
        let mut attempts = Attempts::default();
        attempts.failed("a", Error::Closed);
        assert!(attempts.failure("a").is_some() && attempts.failure("b").is_none());
        assert!(attempts.forget_failure("a") && !attempts.forget_failure("a"));
        assert!(attempts.failure("a").is_none());
        attempts.begin(attempt(AttemptKind::Accept(Accept::Named("a".to_owned())), Instant::now()));
        assert!(attempts.take("b").is_none());
        assert!(attempts.take("a").is_some() && attempts.take("a").is_none());
    }

    #[test]
    fn accepts_of_anyone_have_no_name_and_are_answered_in_turn() {
        let mut attempts = Attempts::default();
        let now = Instant::now();
        for number in 0..3 {
            attempts.begin(attempt(AttemptKind::Accept(Accept::Anyone(number)), now));
        }
        attempts.begin(attempt(AttemptKind::Connect("a".to_owned()), now));
        let mut running = attempts.take_running();
        running[1].peer = Some(PeerKey::default());
        attempts.go_on(running);
        assert_eq!(attempts.take_accepts_of_any().len(), 2, "a peer has come for the other");
        assert!(attempts.awaits_any() && attempts.next_of_any().is_none());
        attempts.accept_of_any_ended(Ok("b".to_owned()));
        attempts.accept_of_any_ended(Err(Error::Closed));
        assert!(matches!(attempts.next_of_any(), Some(Ok(name)) if name == "b"));
        assert!(matches!(attempts.next_of_any(), Some(Err(Error::Closed))));
    }
}
