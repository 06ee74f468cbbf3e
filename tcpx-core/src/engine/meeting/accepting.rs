//! Acceptance of peers that come in. Each is welcomed as soon as it has proven itself, and an
//! accept names it before or after.
//!
//! Peers that come in for another device of the session.
//!
//! The engine that listens is the host's. A worker brings a proven peer that wants another device
//! to that device, and makes the engine if need be. That engine takes the peer into a listener
//! without a socket, where the peer may meet a dial of its own.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::memory::Device;

use super::accept_queue::{Accept, IncomingPeer};
use super::listening::check_peer_name;
use crate::control::identity::ProvenLink;
use crate::control::inbound_handshake::{InboundHandshake, Welcomed};
use crate::engine::Engine;
use crate::error::{Awaited, Error, Phase, Result};
use crate::peer::Peer;
use crate::types::{PeerKey, PeerName};

impl Engine {
    /// Begins an accept. The name is the accept's own, and a peer that waits for it is taken at
    /// once.
    pub(crate) fn start_accept(&mut self, accept: &Accept) -> Result<()> {
        self.check_open()?;
        accept.name().map_or(Ok(()), check_peer_name)?;
        if self.meeting.names().is_some() {
            return Err(Error::PeerState {
                peer: accept.name().unwrap_or("anyone").to_owned(),
                state: "accepted by itself",
                cure: "a session of all devices accepts all peers that have proven themselves",
            });
        }
        if self.meeting.listener.is_none() {
            return Err(Error::PeerState {
                peer: accept.name().unwrap_or("anyone").to_owned(),
                state: "not able to come",
                cure: "call listen and give the peer the connection info first",
            });
        }
        accept.name().map_or(Ok(()), |name| self.check_free(name))?;
        if let Some(name) = accept.name() {
            self.meeting.attempts.forget_failure(name);
        }
        self.drop_gone_unclaimed();
        let peers = &self.peers;
        let info = accept.name().and_then(|name| self.meeting.infos.get(name));
        let proves = info
            .map(|info| move |key| peers.get(key).is_some_and(|peer: &Peer| peer.came_from(info)));
        let proves = proves.as_ref().map(|proves| proves as &dyn Fn(PeerKey) -> bool);
        if let Some(key) = self.meeting.accept_queue.start_accept(accept.clone(), proves) {
            self.claim_for(accept, key);
        }
        // There may be room now for a peer that waits.
        self.meeting.is_listener_due = true;
        Ok(())
    }

    /// Begins an accept of any peer.
    pub(crate) fn accept_of_any(&mut self) -> Accept {
        self.meeting.accepts_of_anyone += 1;
        Accept::Anyone(self.meeting.accepts_of_anyone)
    }

    /// Returns the peer that came for an accept, once there is one.
    pub(crate) fn accepted(&mut self, accept: &Accept) -> Result<Option<PeerKey>> {
        self.check_open()?;
        Ok(self.meeting.accept_queue.take_accepted(accept))
    }

    /// Ends an accept for which no peer came in time.
    pub(crate) fn accept_overdue(&mut self, accept: &Accept, waited: Duration) -> Error {
        self.meeting.accept_queue.stop_accept(accept);
        let mut why = self.meeting.accept_queue.why_none();
        if let Some(name) = accept.name()
            && self.meeting.infos.contains_key(name)
            && self.meeting.accept_queue.is_waiting(name)
        {
            why += &format!(
                "; who calls itself {name} is not the session that the connection info leads to \
                 which was loaded under this name: load its new one, or forget the old"
            );
        }
        let detail = Awaited::words(why);
        let peer = accept.name().map(str::to_owned);
        Error::Deadline { phase: Phase::Accept, peer, waited, detail }
    }

    /// Accepts the peer that waits longest, as an accept of anyone does, without a caller.
    fn accept_by_itself(&mut self) {
        if let Some(key) = self.meeting.accept_queue.take_by_itself() {
            let accept = self.accept_of_any();
            self.claim_for(&accept, key);
        }
    }

    /// Gives a peer that came in its name: the accept's, or else the one under which its connection
    /// info was loaded. Otherwise the peer keeps its own name if no other peer has it, or gets a
    /// made-up one.
    fn claim_for(&mut self, accept: &Accept, key: PeerKey) {
        let name = match accept {
            Accept::Named(name) => name.clone(),
            Accept::Anyone(_) => match self.loaded_name(key) {
                Some(name) => name,
                None => self.free_name(self.given_name(key)),
            },
        };
        self.claim(&name, key);
    }

    /// Returns the first free name whose connection info leads to this peer; the peer's own name
    /// goes before others. Names of several devices are resolved by
    /// [`PeerNames`](super::peer_names::PeerNames).
    fn loaded_name(&self, key: PeerKey) -> Option<String> {
        let peer = self.peers.get(key).filter(|_| self.meeting.names().is_none())?;
        let given = &peer.introduction()?.proven.hello.name;
        let loaded = self.meeting.infos.iter().filter(|(_, info)| peer.came_from(info));
        let mut free = loaded.map(|(name, _)| name).filter(|name| self.check_free(name).is_ok());
        let first = free.next()?;
        let is_its_own = |name: &&String| *name == given;
        Some(std::iter::once(first).chain(free).find(is_its_own).unwrap_or(first).clone())
    }

    /// Returns the name for a peer that came in: in a session of all devices the name that all
    /// devices use, or else the name that the peer gives itself.
    fn given_name(&self, key: PeerKey) -> String {
        let introduction = self.peers.get(key).and_then(Peer::introduction);
        let given = introduction.map(|it| match self.meeting.names() {
            Some(names) => names.of(it),
            None => it.proven.hello.name.clone(),
        });
        given.unwrap_or_default()
    }

    /// Returns this name, which the other end chose, if it is valid and free. Otherwise returns the
    /// first of "peer-1", "peer-2" and so on that no peer has and that no connection info was
    /// loaded for.
    fn free_name(&mut self, given: String) -> String {
        let is_good = check_peer_name(&given).is_ok() && !given.contains(char::is_control);
        let is_anothers = self.meeting.names().is_none() && self.meeting.infos.contains_key(&given);
        if is_good && !is_anothers && self.check_free(&given).is_ok() {
            return given;
        }
        loop {
            self.meeting.names_made_up += 1;
            let name = format!("peer-{}", self.meeting.names_made_up);
            if !self.names.contains_key(&name)
                && !self.meeting.infos.contains_key(&name)
                && self.check_free(&name).is_ok()
            {
                return name;
            }
        }
    }

    /// Gives a peer that came in the name that an accept, or a connect, has for it. A peer that was
    /// accepted by itself is known by both names then, and its connection keeps the first.
    pub(super) fn claim(&mut self, name: &str, key: PeerKey) {
        self.meeting.attempts.forget_failure(name);
        self.forget_name(name);
        self.names.insert(name.to_owned(), key);
        self.has_news = true;
        self.agenda.mark(key);
        if let Some(peer) = self.peers.get_mut(key)
            && let Err(error) = peer.claim(name, &mut self.resources)
        {
            self.fail_peer(key, error);
        }
        self.notify_peer_up(key);
    }

    /// Welcomes a peer that no connect of this session waits for.
    pub(super) fn welcome(&mut self, handshake: InboundHandshake, now: Instant) {
        let address = handshake.address();
        let Some(welcomed) = handshake.welcome(&self.resources.session.identity, None) else {
            return;
        };
        let Welcomed { proven, introduction } = welcomed;
        let given = introduction.proven.hello.name.clone();
        let name = PeerName::provisional(&given, &address);
        let infos = self.meeting.infos.values().filter(|info| introduction.is_of(info));
        let loaded = infos.flat_map(ConnInfo::ips).collect();
        let key = self.peers.insert_with_key(|key| Peer::welcome(key, name.clone(), introduction));
        let (infos, peer) = (&self.meeting.infos, self.peers.get(key));
        let is_of = |info| peer.is_some_and(|peer| peer.came_from(info));
        let proves = |name: &str| infos.get(name).map(is_of);
        let newcomer = IncomingPeer { given: &given, proves: &proves };
        if let Some(accept) = self.meeting.accept_queue.arrive(key, &newcomer).cloned() {
            self.claim_for(&accept, key);
        } else if self.resources.session.options.accept_all {
            self.accept_by_itself();
        }
        self.agenda.mark(key);
        self.link_up(key, proven, loaded, now);
    }

    /// Records that the link of a peer that has come in is proven. The peer may be up with that.
    pub(super) fn link_up(
        &mut self,
        key: PeerKey,
        proven: ProvenLink,
        loaded: Vec<IpAddr>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        let is_up = proven.agreement.on_demand;
        peer.link_up(proven, loaded, now, &self.resources);
        if is_up {
            self.has_news = true;
            self.notify_peer_up(key);
        }
    }

    /// Skips peers that were gone before an accept asked for them. Forgets the oldest of many ended
    /// peers that no accept asked for.
    pub(super) fn drop_gone_unclaimed(&mut self) {
        let peers = &self.peers;
        let is_gone = |key| peers.get(key).is_none_or(Peer::is_gone);
        for key in self.meeting.accept_queue.take_gone(is_gone) {
            let Some(peer) = self.take_out(key) else { continue };
            if let Some(error) = peer.why_gone() {
                tracing::warn!(peer = %peer.name(), %error, "peer left before it was accepted");
                self.meeting.accept_queue.note_why_missed(error.to_string());
            }
        }
        while let Some(key) = self.meeting.accept_queue.take_ended() {
            let is_loaded = |peer: &Peer| self.meeting.infos.contains_key(peer.name().as_str());
            if self.peers.get(key).is_some_and(|peer| peer.is_gone() && !is_loaded(peer)) {
                self.forget(key);
            }
        }
    }
}

/// Maximum number of handshakes on their way to another session at a time. Making a session may
/// take long, where a GPU does.
pub(crate) const MOST_HANDED_OVER: usize = 64;

impl Engine {
    /// Hands a handshake to the session of the device that the peer wants. A worker brings it
    /// there, and makes that session on first use.
    pub(super) fn hand_over(&mut self, device: Device, handshake: InboundHandshake) {
        let hand_over = self.meeting.context.hand_over.clone();
        let Some(hand_over) = hand_over else {
            return handshake.refuse(format!("this session is of one device, and not of {device}"));
        };
        let under_way = Arc::clone(&self.meeting.handed_over);
        if under_way.fetch_add(1, Ordering::Relaxed) >= MOST_HANDED_OVER {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return handshake.refuse(format!("too many wait for {device}; try again"));
        }
        self.resources.workers.call(move || {
            hand_over(device, handshake);
            under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Takes in a peer that has come for this session, and has proven itself to the session that
    /// listens for all devices.
    pub(crate) fn take_in(&mut self, mut handshake: InboundHandshake) {
        let Some(listener) = &mut self.meeting.listener else {
            return handshake.refuse("the session is closed".to_owned());
        };
        if let Err(error) = handshake.hand_to(&self.resources.session.identity) {
            return handshake.refuse(error.to_string());
        }
        match listener.take_in(handshake) {
            Ok(()) => self.meeting.is_listener_due = true,
            Err(error) => tracing::warn!(%error, "an incoming peer was dropped"),
        }
    }

    /// Returns the names of connections with the devices of a peer.
    pub(crate) fn connections_of(&self, name: &str) -> Vec<String> {
        self.names.keys().filter(|peer| Device::peer_name(peer) == name).cloned().collect()
    }

    /// Remembers how a device of a peer is reached.
    pub(crate) fn know(&mut self, name: &str, info: ConnInfo) -> Result<()> {
        self.check_open()?;
        self.meeting.infos.insert(name.to_owned(), info);
        Ok(())
    }
}
