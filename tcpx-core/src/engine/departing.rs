//! Peers that are left, that end, and that are forgotten.

use std::time::{Duration, Instant};

use tcpx_diagnosis::table::limits;
use tcpx_protocol::peer::stage::Leaving;

use super::Engine;
use super::parked::Parked;
use crate::error::{Departure, Error, Phase, Result};
use crate::peer::Peer;
use crate::reactor::attention::Attention;
use crate::transfer::batch::BatchNumber;
use crate::types::PeerKey;

impl Engine {
    /// Drops a peer, and its names with it, unless another peer has that by now.
    pub(crate) fn forget(&mut self, key: PeerKey) {
        self.names.retain(|_, named| *named != key);
        self.take_out(key);
    }

    /// Drops the peer that has this name, which is over.
    pub(super) fn forget_name(&mut self, name: &str) {
        if let Some(key) = self.names.get(name).copied() {
            self.forget(key);
        }
    }

    /// Takes a peer out for good. Its numbers stay in the session's.
    pub(super) fn take_out(&mut self, key: PeerKey) -> Option<Peer> {
        let peer = self.peers.remove(key)?;
        self.tell_left(&peer);
        self.has_news = true;
        self.agenda.forget(key);
        self.departed.add(&peer.report());
        Some(peer)
    }

    /// Whether the program has left a peer, or closed the session.
    pub(crate) fn has_left(&self, key: PeerKey) -> bool {
        self.is_closed || self.peers.get(key).is_none_or(Peer::is_left)
    }

    /// Leaves a peer. One that cannot be up at its end is ended at once: nobody there would answer.
    pub(crate) fn start_disconnect(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        self.has_news = true;
        // Its successor may have waited for that.
        self.is_listener_due = true;
        self.agenda.mark(key);
        let leaving = peer.disconnect(&mut self.commons);
        peer.show_at_gate();
        self.peers.get(key).into_iter().for_each(|peer| self.tell_left(peer));
        match leaving {
            Ok(Leaving::Begun) => {}
            Ok(Leaving::NobodyThere) => self.fail_peer(key, Error::Closed),
            Err(error) => self.fail_peer(key, error),
        }
    }

    /// Ends a peer with an error. What is being unpacked from its bounce buffer, or gathered for
    /// it, is parked.
    pub(crate) fn fail_peer(&mut self, key: PeerKey, error: Error) {
        self.end_peer(key, error, self.commons.batch.reached());
    }

    /// Ends a peer whose driving has failed, and passes the error on.
    pub(super) fn end_on_error(&mut self, key: PeerKey, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            self.fail_peer(key, error.clone());
        }
        outcome
    }

    /// Ends a peer that somebody has waited for too long. The deadline is the waiting call's; the
    /// peer, and its operations, end because it is gone.
    pub(crate) fn end_overdue(
        &mut self,
        key: PeerKey,
        phase: Phase,
        waited: Duration,
        now: Instant,
    ) -> Error {
        let deadline = self.deadline(phase, key, waited, now);
        if let Some(peer) = self.peers.get(key) {
            let how = match phase {
                Phase::Close => Departure::Unanswered(waited),
                _ => Departure::NeverUp { waited, state: peer.state() },
            };
            let peer = peer.name().to_string();
            self.fail_peer(key, Error::PeerGone { peer, phase, how });
        }
        deadline
    }

    /// Ends every peer with an error. Nothing up to batch `reached` is being unpacked or gathered.
    pub(super) fn end_all(&mut self, error: &Error, reached: BatchNumber) {
        for key in self.peers.keys().collect::<Vec<_>>() {
            self.end_peer(key, error.clone(), reached);
        }
    }

    /// Whether anything but the state of transfers has changed since this was asked last that
    /// somebody may wait for: who is up or has come, what is gone, what is left of it, and
    /// notifications.
    pub(crate) fn take_news(&mut self) -> bool {
        let ledger = &mut self.commons.ledger;
        // Calls that take memory or exports back wait for the end of what uses them.
        let is_free = ledger.exports.take_over() | ledger.registrations.take_has_lost_users();
        let has_come = is_free | ledger.notifications.take_come();
        std::mem::take(&mut self.has_news) | has_come
    }

    fn end_peer(&mut self, key: PeerKey, error: Error, reached: BatchNumber) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        if peer.is_gone() {
            return;
        }
        if !matches!(error, Error::PeerGone { how: Departure::Goodbye, .. } | Error::Closed) {
            self.peers_failed += 1;
            match error.id() {
                // Others can have no channels any more, either.
                Some(id) if id == limits::OPEN_FILES_LIMIT.code => {
                    tracing::error!(peer = %peer.name(), %error, "peer failed");
                }
                _ => tracing::warn!(peer = %peer.name(), %error, "peer failed"),
            }
        }
        self.agenda.settle(key, Attention::default());
        self.has_news = true;
        // Another may have waited for its place, or for its dial to end.
        self.is_listener_due = true;
        let leftover = peer.end(error.clone(), &mut self.commons, reached);
        self.commons.ledger.exports.rest();
        peer.show_at_gate();
        if let Some(leftover) = leftover {
            let mut parked = Parked::new(peer.name().clone(), error, leftover);
            if self.is_stuck {
                parked.never_ends();
            }
            self.parked.push(parked);
        }
        self.tell_end(key);
    }
}
