//! Connects of this session, and peers that come in from their targets: two programs that connect
//! to each other get one connection.
//!
//! Choice between the two links of sessions that connect to each other at the same time. Pure.
//!
//! Each end decides when it reads the other's hello, and neither knows the other's progress. Three
//! rules bring both to the same link:
//!
//! - The other end cannot know of a dial that has said no hello there. Such a dial gives way.
//! - Of two that have both said hello, the dial of the session with the smaller id stays. That end
//!   leaves the other's hello unanswered, and the other end gives way.
//! - The decision on a waiting hello is repeated when the own dial has ended. So no end relies on a
//!   dial that fails. Where only one direction leads anywhere, that direction is taken.
//!
//! An end that has given way says so in its welcome, for its own hello may arrive after the
//! welcome, or even after the end of the connection that the welcome has begun.
//!
//! A session may connect again while this end still has its old connection. The new one waits until
//! the old one has ended here, because bytes of the old one may still be unread. This end asks the
//! old one for a sign of life. So no bytes sent on the old connection land on later writes. This
//! end also waits, and does not dial either, while something lingering may still write memory for
//! that session: chunks that a GPU unpacks, or comms that are being closed.

use std::time::{Duration, Instant};

use slotmap::SlotMap;
use tcpx_protocol::frames::conn_info::{ConnInfo, SessionId};
use tcpx_protocol::frames::handshake_frame::Introduction;

use super::accept_queue::IncomingPeer;
use crate::control::connector::Connector;
use crate::engine::{Engine, unknown};
use crate::error::{Error, Result};
use crate::peer::Peer;
use crate::types::{PeerKey, PeerName};

#[cfg(test)]
use crate::control::listener::ControlListener;

/// Divisor of a connect's time, for the part in which a peer may come in that was reached at none
/// of its addresses.
const AWAIT_SHARE: u32 = 10;

impl Engine {
    /// Starts reaching a peer whose connection info was loaded, unless the peer has come in itself.
    pub(crate) fn start_connect(&mut self, name: &str) -> Result<PeerKey> {
        self.check_open()?;
        let Some(info) = self.meeting.infos.get(name) else {
            return Err(unknown(name, self.meeting.infos.keys()));
        };
        let info = info.clone();
        if let Some(key) = self.is_met(name, &info) {
            self.meeting.accept_queue.note_named(key);
            return Ok(key);
        }
        self.check_free(name)?;
        self.meeting.attempts.forget_failure(name);
        if let Some(key) = self.take_unnamed_from(&info) {
            self.claim(name, key);
            return Ok(key);
        }
        self.forget_name(name);
        let connector = Connector::new(info.clone(), self.next_connection_with(&info.session));
        let peer_name = PeerName::bound(name);
        let key = self.peers.insert_with_key(|key| Peer::dial(key, peer_name, connector));
        self.agenda.mark(key);
        // A peer from there may have come in and wait.
        self.meeting.is_listener_due = true;
        self.names.insert(name.to_owned(), key);
        Ok(key)
    }

    /// Returns the peer of this name, if it has come in by itself from where this connection info
    /// leads, and was accepted without an accept. In a session of all devices, also returns a peer
    /// that is or was being reached: its programs need not connect, and may do so under each of its
    /// names.
    fn is_met(&self, name: &str, info: &ConnInfo) -> Option<PeerKey> {
        if !self.resources.session.options.accept_all {
            return None;
        }
        let (key, peer) = self.peer(name).ok()?;
        let is_dialled = self.meeting.names().is_some()
            && peer.introduction().is_none()
            && peer.connection_with(&info.session).is_some();
        ((is_dialled || peer.came_from(info)) && !peer.is_left()).then_some(key)
    }

    /// Takes the peer that a connect with this connection info would reach out of the accept queue.
    fn take_unnamed_from(&mut self, info: &ConnInfo) -> Option<PeerKey> {
        self.drop_gone_unclaimed();
        let peers = &self.peers;
        let came_from = |peer: &Peer| peer.came_from(info) && !peer.is_left();
        let is_reached = |key| peers.get(key).is_some_and(came_from);
        self.meeting.accept_queue.take_for_connect(is_reached)
    }

    /// Returns the number of a further connection with a session: the smallest that is free here.
    fn next_connection_with(&self, session: &SessionId) -> u16 {
        let connections = self.peers.values().filter_map(|peer| peer.connection_with(session));
        let mut taken: Vec<u16> = connections.collect();
        taken.sort_unstable();
        taken.dedup();
        let gap = (0..).zip(&taken).find(|(number, taken)| number != *taken);
        gap.map_or(taken.len() as u16, |(number, _)| number)
    }

    /// Checks for new links, and takes in proven peers while there is room. Peers are connected
    /// whether or not their accept has been called.
    pub(in crate::engine) fn accept_links(&mut self, now: Instant) -> bool {
        let is_due = std::mem::take(&mut self.meeting.is_listener_due);
        let Some(listener) = &mut self.meeting.listener else { return false };
        let wants = listener.attention();
        if !is_due && !wants.polls && wants.timeout.is_none_or(|timeout| now < timeout) {
            return false;
        }
        let mut moved = listener.progress(now, &self.resources.session.identity);
        self.drop_gone_unclaimed();
        if let Some(listener) = &self.meeting.listener
            && listener.has_proven()
        {
            moved |= self.meet(now);
        }
        self.meeting.is_listener_due |= moved;
        moved
    }

    /// Decides on every peer that has proven itself.
    fn meet(&mut self, now: Instant) -> bool {
        let mut moved = false;
        let waiting = self.meeting.listener.iter().flat_map(|listener| listener.proven());
        for number in waiting.map(|(number, _)| number).collect::<Vec<_>>() {
            moved |= self.poll_handshake(number, now);
        }
        moved
    }

    /// Returns whether a proven peer waits.
    #[cfg(test)]
    pub(crate) fn has_proven(&self) -> bool {
        self.meeting.listener.as_ref().is_some_and(ControlListener::has_proven)
    }

    fn poll_handshake(&mut self, number: u64, now: Instant) -> bool {
        let device = self.device();
        let Some(listener) = &mut self.meeting.listener else { return false };
        let Some(introduction) = listener.introduction(number) else { return false };
        let wanted = introduction.wanted();
        if wanted != device {
            if let Some(handshake) = listener.take(number) {
                self.hand_over(wanted, handshake);
            }
            return true;
        }
        let ours = &self.resources.session.identity.session;
        if self.unpacking.is_written_by(introduction.session()) {
            return false;
        }
        // A session that connects to itself is two peers, one at each end.
        let is_own = introduction.session() == ours;
        let dial = self.peers.iter().find_map(|(key, peer)| {
            let connector = peer.connector()?;
            (!is_own && is_same(connector, introduction)).then_some((key, connector))
        });
        let own = dial.map(|(_, connector)| match connector.unanswered() {
            Some(_) => DialProgress::Greeted,
            None => DialProgress::Unheard,
        });
        let is_given_up = self.meeting.given_up.take(introduction.nonce());
        match (decide(ours, introduction.session(), own, is_given_up), dial) {
            (HelloDecision::Adopt, Some((key, _))) => self.adopt(key, number, now),
            (HelloDecision::Wait, _) => return false,
            (HelloDecision::Drop, _) => drop(listener.take(number)),
            (HelloDecision::Welcome | HelloDecision::Adopt, _) => {
                if let Some(lost) = predecessor(&self.peers, introduction) {
                    self.doubt(lost, now);
                    return false;
                }
                let infos = &self.meeting.infos;
                let proves = |name: &str| infos.get(name).map(|info| introduction.is_of(info));
                let newcomer =
                    IncomingPeer { given: &introduction.proven.hello.name, proves: &proves };
                if !self.meeting.accept_queue.has_room_for(&newcomer) {
                    return false;
                }
                if let Some(handshake) = listener.take(number) {
                    self.welcome(handshake, now);
                }
            }
        }
        true
    }

    /// Checks a peer whose session begins the same connection anew. Bytes sent on the old
    /// connection come first: they would land on later writes.
    fn doubt(&mut self, key: PeerKey, now: Instant) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.doubt(now);
            self.agenda.mark(key);
        }
    }

    /// Returns whether the dial of a peer, if there is one, must wait for writes of the peer's
    /// session.
    pub(in crate::engine) fn is_dialled_too_early(&self, key: PeerKey) -> bool {
        self.unpacking.lingering() > 0 && {
            let dial = self.peers.get(key).filter(|peer| peer.connector().is_some());
            dial.is_some_and(|peer| self.unpacking.is_written_by(peer.session()))
        }
    }

    /// Meets waiting sessions after fewer remains linger: a session that waited for them may be
    /// met now.
    pub(in crate::engine) fn poll_handshakes(&mut self) {
        self.meeting.is_listener_due = true;
        for (key, peer) in &self.peers {
            if peer.connector().is_some() {
                self.agenda.mark(key);
            }
        }
    }

    /// Makes a peer that came in the one that a connect waits for. The connect's own dial ends
    /// before the peer learns of it.
    fn adopt(&mut self, key: PeerKey, number: u64, now: Instant) {
        let handshake = self.meeting.listener.as_mut().and_then(|listener| listener.take(number));
        self.agenda.mark(key);
        let (Some(handshake), Some(peer)) = (handshake, self.peers.get_mut(key)) else { return };
        let instead_of = peer.connector().and_then(Connector::unanswered);
        let identity = &self.resources.session.identity;
        let Some(welcomed) = handshake.welcome(identity, instead_of) else { return };
        let loaded = peer.connector().map(|dial| dial.info().ips()).unwrap_or_default();
        tracing::debug!(peer = %peer.name(), "peer has connected to this session first");
        self.meeting.accept_queue.note_taken_by_connect();
        self.link_up(key, welcomed.proven, loaded, now);
    }

    /// Handles a failed step of a peer. If the peer's own connect is here, this end's connect goes
    /// on with it. If no address has led to the peer and the peer may come, the connect waits for
    /// it.
    pub(in crate::engine) fn step_failed(&mut self, key: PeerKey, error: Error, now: Instant) {
        if let Some(connector) = self.peers.get_mut(key).and_then(|peer| peer.connector_mut())
            && let Some(listener) = &self.meeting.listener
        {
            let come = listener.proven().find(|(_, introduction)| is_same(connector, introduction));
            if let Some((number, _)) = come {
                self.adopt(key, number, now);
                return;
            }
            let time: Duration = self.resources.session.options.connect_timeout / AWAIT_SHARE;
            if connector.await_peer(&error, now + time) {
                return;
            }
        }
        self.fail_peer(key, error);
    }
}

/// Returns the peer that is the same connection of the same session, which the other end must have
/// lost.
fn predecessor(peers: &SlotMap<PeerKey, Peer>, introduction: &Introduction) -> Option<PeerKey> {
    let is_it = |peer: &Peer| {
        peer.connection().is_some()
            && peer.connection_with(introduction.session()) == Some(introduction.connection())
    };
    peers.iter().find_map(|(key, peer)| is_it(peer).then_some(key))
}

/// Returns whether a peer that came in is the connection that a dial is to become.
fn is_same(connector: &Connector, introduction: &Introduction) -> bool {
    introduction.connection() == connector.connection() && introduction.is_of(connector.info())
}

/// Progress of this end's own dial to the session, while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DialProgress {
    /// The dial has said no hello, or none that can still be answered.
    Unheard,
    /// The dial has said hello, and waits for the answer.
    Greeted,
}

/// Decision on a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelloDecision {
    /// The hello is from a peer like any other that comes in.
    Welcome,
    /// The hello's link is the one that this end's connect waits for. The own dial gives way.
    Adopt,
    /// The hello is not answered now: the answer to this end's own dial is about to come.
    Wait,
    /// The other end has given the hello up already, for this end's.
    Drop,
}

/// Decides on a proven hello of session `theirs`. `own`: the dial of this end for the same
/// connection. `is_given_up`: whether a welcome of the other end has said so.
fn decide(
    ours: &SessionId,
    theirs: &SessionId,
    own: Option<DialProgress>,
    is_given_up: bool,
) -> HelloDecision {
    match own {
        _ if is_given_up => HelloDecision::Drop,
        None => HelloDecision::Welcome,
        Some(DialProgress::Greeted) if ours < theirs => HelloDecision::Wait,
        Some(DialProgress::Unheard | DialProgress::Greeted) => HelloDecision::Adopt,
    }
}

#[cfg(test)]
mod tests;
