//! Departure of peers that are left, that end, and that are forgotten; events of peers for the
//! program; and the end of a session.

use std::time::{Duration, Instant};

use tcpx_diagnosis::table::limits;
use tcpx_protocol::peer::lifecycle::stage::Leaving;
use tcpx_protocol::types::memory::Device;

use crate::completions::PeerState;
use crate::completions::peer_queue::DeviceConnection;
use crate::engine::{Engine, unknown};
use crate::error::{Departure, Error, Phase, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::peer::{Peer, PeerStatus};
use crate::reactor::Attention;
use crate::transfer::batch::BatchNumber;
use crate::types::PeerKey;

impl Engine {
    /// Drops a peer, and its names with it, unless another peer has them by now.
    pub(crate) fn forget(&mut self, key: PeerKey) {
        self.names.retain(|_, named| *named != key);
        self.take_out(key);
    }

    /// Forgets how to reach the peers of this name: in a session of all devices, all devices of the
    /// peer. Ended peers are forgotten, too.
    pub(crate) fn forget_conn_info(&mut self, name: &str) -> Result<()> {
        self.check_open()?;
        let has_devices = self.meeting.names().is_some();
        let is_it =
            |other: &str| name == if has_devices { Device::peer_name(other) } else { other };
        let before = self.meeting.infos.len();
        self.meeting.infos.retain(|other, _| !is_it(other));
        if self.meeting.infos.len() == before {
            return Err(unknown(name, self.meeting.infos.keys()));
        }
        self.meeting.attempts.forget_failures(is_it);
        let named = self.names.iter().filter(|(other, _)| is_it(other)).map(|(_, key)| *key);
        for key in named.collect::<Vec<_>>() {
            if self.peers.get(key).is_none_or(Peer::is_gone) {
                self.forget(key);
            } else if self.resources.session.options.accept_all {
                self.meeting.accept_queue.note_forgotten(key);
            }
        }
        Ok(())
    }

    /// Drops the peer of this name, which is over.
    pub(super) fn forget_name(&mut self, name: &str) {
        if let Some(key) = self.names.get(name).copied() {
            self.forget(key);
        }
    }

    /// Takes a peer out for good. Its counts stay in the session's.
    pub(super) fn take_out(&mut self, key: PeerKey) -> Option<Peer> {
        let peer = self.peers.remove(key)?;
        self.notify_peer_left(&peer);
        self.has_news = true;
        self.agenda.forget(key);
        self.departed.add(&peer.report());
        Some(peer)
    }

    /// Returns whether the program has left a peer, or closed the session.
    pub(crate) fn has_left(&self, key: PeerKey) -> bool {
        self.is_closed || self.peers.get(key).is_none_or(Peer::is_left)
    }

    /// Leaves a peer. A peer that cannot be up at its end is ended at once: the peer would not
    /// answer there.
    pub(crate) fn start_disconnect(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        self.has_news = true;
        // The peer's successor may have waited for this.
        self.meeting.is_listener_due = true;
        self.agenda.mark(key);
        let leaving = peer.disconnect(&mut self.resources);
        peer.update_gate();
        self.peers.get(key).into_iter().for_each(|peer| self.notify_peer_left(peer));
        match leaving {
            Ok(Leaving::Begun) => {}
            Ok(Leaving::NobodyThere) => self.fail_peer(key, Error::Closed),
            Err(error) => self.fail_peer(key, error),
        }
    }

    /// Ends a peer with an error. Chunks that are being unpacked from its bounce buffer, or
    /// gathered for it, linger.
    pub(crate) fn fail_peer(&mut self, key: PeerKey, error: Error) {
        self.end_peer(key, error, self.resources.batch.reached());
    }

    /// Ends a peer whose driving has failed, and passes the error on.
    pub(in crate::engine) fn end_on_error(
        &mut self,
        key: PeerKey,
        outcome: Result<()>,
    ) -> Result<()> {
        if let Err(error) = &outcome {
            self.fail_peer(key, error.clone());
        }
        outcome
    }

    /// Ends a peer that a call has waited for too long. The deadline is the waiting call's; the
    /// peer, and its operations, end because the peer is gone.
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
    pub(in crate::engine) fn end_all(&mut self, error: &Error, reached: BatchNumber) {
        for key in self.peers.keys().collect::<Vec<_>>() {
            self.end_peer(key, error.clone(), reached);
        }
    }

    /// Returns whether news has come since the last call that a thread may wait for. News is
    /// anything but the state of transfers: peers that are up or have come, what is gone, what is
    /// left of it, and notifications.
    pub(crate) fn poll_peers(&mut self) -> bool {
        let ledger = &mut self.resources.ledger;
        // Calls that take back memory or exports wait for the end of their users.
        let is_free = ledger.exports.take_over() | ledger.registrations.take_has_drained();
        let has_come = is_free | ledger.notifications.take_arrived();
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
                // Other peers can have no channels any more, either.
                Some(id) if id == limits::OPEN_FILES_LIMIT.code => {
                    tracing::error!(peer = %peer.name(), %error, "peer failed");
                }
                _ => tracing::warn!(peer = %peer.name(), %error, "peer failed"),
            }
        }
        self.agenda.reschedule(key, Attention::default());
        self.has_news = true;
        // Another peer may have waited for its place, or for its dial to end.
        self.meeting.is_listener_due = true;
        let leftover = peer.end(error.clone(), &mut self.resources, reached);
        let (name, session) = (peer.name().as_str(), peer.session());
        // The next notification would connect it again.
        if peer.has_lost_notes() && !peer.is_left() && self.meeting.leads_to(name, session) {
            self.meeting.attempts.notes_lost(name, *session, error.clone());
        }
        self.resources.ledger.exports.rest();
        peer.update_gate();
        if let Some(leftover) = leftover {
            self.unpacking.linger(peer, error, leftover);
        }
        self.notify_peer_end(key);
    }
}

impl Engine {
    /// Returns whether nothing is left to say to any peer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.peers.values().all(Peer::is_gone)
    }

    /// Frees what is left. Freeing a GPU's memory waits until the GPU is idle, so this end waits
    /// only for a while.
    fn free(&mut self) {
        if let DeviceMemory::Emulated = self.resources.session.memory {
            return;
        }
        let registrations = std::mem::take(&mut self.resources.ledger.registrations);
        let unpacker = self.unpacking.take();
        self.resources.workers.close((registrations, unpacker));
        if !self.resources.workers.finish(self.patience_with_workers()) {
            tracing::warn!("the GPU is busy: a session's memory is freed when it has finished");
        }
    }

    /// Begins to say goodbye to all peers; peers that cannot be up at either end are dropped at
    /// once.
    pub(crate) fn start_close(&mut self) {
        (self.is_closed, self.has_news) = (true, true);
        self.meeting.listener = None;
        for key in self.peers.keys().collect::<Vec<_>>() {
            self.start_disconnect(key);
        }
    }

    /// Ends everything that is left.
    pub(crate) fn finish_close(&mut self) {
        (self.is_closed, self.has_news) = (true, true);
        self.end_all(&Error::Closed, self.resources.batch.reached());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_settled() && !self.unpacking.is_stuck() && !self.has_long_calls() {
            return self.free();
        }
        // Memory that a copy or kernel under way may still touch stays, for as long as the process
        // lives.
        tracing::error!(
            peers = self.unpacking.lingering(),
            "memory that is still in use is left behind"
        );
        std::mem::forget(std::mem::take(&mut self.resources.ledger.registrations));
        self.unpacking.leave();
    }
}

impl Engine {
    /// Reports that a peer has come up, or has got its name.
    pub(in crate::engine) fn notify_peer_up(&self, key: PeerKey) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.name().is_bound()) else { return };
        if matches!(peer.status(), PeerStatus::Up) && !peer.is_left() {
            let (name, connection) = self.notified_name(peer.name().as_str());
            self.meeting.peer_events().up(name, connection);
        }
    }

    /// Reports that the program leaves a peer, or that the peer is dropped.
    fn notify_peer_left(&self, peer: &Peer) {
        if peer.name().is_bound() {
            let (name, connection) = self.notified_name(peer.name().as_str());
            self.meeting.peer_events().left(name, &connection);
        }
    }

    /// Reports the end of a peer.
    fn notify_peer_end(&self, key: PeerKey) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.name().is_bound()) else { return };
        let name = peer.name().as_str();
        match peer.status() {
            PeerStatus::Connecting | PeerStatus::Up => {}
            // Several connections are left, and some may find the peer leaving.
            _ if peer.is_left() && self.meeting.names().is_some() => {}
            PeerStatus::Parted => self.notify_ended(name, PeerState::Parted),
            PeerStatus::Failed(error) => self.notify_connect_failure(name, error),
        }
    }

    /// Reports that an attempt for a peer of this name has failed, or that the peer has.
    pub(super) fn notify_connect_failure(&self, name: &str, error: &Error) {
        // The program closed it itself.
        if !matches!(error, Error::Closed) {
            self.notify_ended(name, PeerState::Failed(error.clone()));
        }
    }

    fn notify_ended(&self, name: &str, how: PeerState) {
        let (name, connection) = self.notified_name(name);
        self.meeting.peer_events().ended(name, &connection, how);
    }

    /// Returns the program's name of a peer, and the connection that this session has with it.
    fn notified_name<'a>(&self, name: &'a str) -> (&'a str, DeviceConnection) {
        let peer = self.meeting.names().map_or(name, |_| Device::peer_name(name));
        (peer, (self.device(), name.to_owned()))
    }
}
