//! The progress engine of a session: all state behind one lock, moved by `progress`.

mod accept_queue;
mod arrivals;
pub(crate) mod parking;
mod report;
mod unpacking;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Instant;

use parking::Parked;
use slotmap::SlotMap;
use tcpx_unpack::Unpack;

use crate::control::conn_info::ConnInfo;
use crate::control::connector::Connector;
use crate::control::listener::ControlListener;
use crate::engine::accept_queue::AcceptQueue;
use crate::error::{Departure, Error, Phase, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::peer::session_context::SessionContext;
use crate::peer::{Peer, Stage};
use crate::plugin::Plugin;
use crate::plugin::nics;
use crate::settings::{SessionOptions, check_name};
use crate::stats::report::Sums;
use crate::stats::stages::{Activity, StageClock};
use crate::transfer::batch::{Batch, BatchNumber};
use crate::transfer::ledger::Ledger;
use crate::types::PeerKey;
use crate::types::peer_name::PeerName;

/// Everything of a session.
pub(crate) struct Engine {
    pub(crate) env: SessionContext,
    pub(crate) ledger: Ledger,
    pub(crate) peers: SlotMap<PeerKey, Peer>,
    names: HashMap<String, PeerKey>,
    infos: BTreeMap<String, ConnInfo>,
    strangers: Option<ControlListener>,
    lobby: AcceptQueue<PeerKey>,
    unpack: Box<dyn Unpack>,
    unpack_why: String,
    unpack_batches: u64,
    peers_failed: u64,
    /// What peers that are forgotten have counted.
    departed: Sums,
    batch: Batch,
    watch: watch::Watch,
    parked: Vec<Parked>,
    /// Unpacking has stopped with copies under way that will not be seen to finish.
    is_stuck: bool,
    stages: StageClock,
    is_closed: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("peers", &self.names)
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(options: SessionOptions) -> Result<Self> {
        options.check()?;
        let memory = DeviceMemory::open(options.gpu)?;
        let plugin = Plugin::open(&options.plugin, options.preflight)?;
        options.check_chunk(plugin.chunk_bytes())?;
        nics::by_name(plugin.nics(), &options.nics)?;
        let opened = tcpx_unpack::open(options.unpack, memory.kind())?;
        tracing::info!(
            plugin = plugin.name(), path = %plugin.path().display(), unpack = %opened.unpack.backend(), why = %opened.why,
            "session created"
        );
        Ok(Self {
            env: SessionContext::new(options, plugin, memory, opened.unpack.backend())?,
            ledger: Ledger::default(),
            peers: SlotMap::with_key(),
            names: HashMap::new(),
            infos: BTreeMap::new(),
            strangers: None,
            lobby: AcceptQueue::default(),
            unpack: opened.unpack,
            unpack_why: opened.why,
            unpack_batches: 0,
            peers_failed: 0,
            departed: Sums::default(),
            batch: Batch::default(),
            watch: watch::Watch::default(),
            parked: Vec::new(),
            is_stuck: false,
            stages: StageClock::default(),
            is_closed: false,
        })
    }

    /// Opens the control listener, once, and says how to reach it.
    pub(crate) fn listen(&mut self) -> Result<Vec<u8>> {
        self.check_open()?;
        let strangers = match &self.strangers {
            Some(strangers) => strangers,
            None => self.strangers.insert(ControlListener::listen(self.env.options.listen)?),
        };
        let bound = strangers.address()?;
        let options = &self.env.options;
        let addresses = match (options.advertise.is_empty(), bound.ip().is_unspecified()) {
            (false, _) => options.advertise.clone(),
            (true, false) => vec![bound.ip()],
            (true, true) => nics::local_addresses(),
        };
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, bound.port())).collect();
        let info = ConnInfo {
            session: self.env.identity.session,
            secret: self.env.identity.secret.clone(),
            addresses: ConnInfo::limit_addresses(addresses),
        };
        tracing::debug!(addresses = ?info.addresses, "listening for peers");
        Ok(info.encode())
    }

    pub(crate) fn load_conn_info(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.check_open()?;
        check_peer_name(name)?;
        self.infos.insert(name.to_owned(), ConnInfo::decode(bytes)?);
        Ok(())
    }

    /// Starts reaching a peer whose connection info was loaded.
    pub(crate) fn start_connect(&mut self, name: &str, now: Instant) -> Result<PeerKey> {
        self.check_open()?;
        let Some(info) = self.infos.get(name) else {
            let known = self.infos.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownPeer { peer: name.to_owned(), known });
        };
        let stage = Stage::Connecting(Box::new(Connector::new(info.clone())));
        self.check_free(name)?;
        self.forget(name);
        let peer_name = PeerName::bound(name);
        let key = self.peers.insert_with_key(|key| Peer::new(key, peer_name, stage, now));
        self.names.insert(name.to_owned(), key);
        Ok(key)
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::Closed) } else { Ok(()) }
    }

    /// A name is free when no peer has it, or a peer that is over, and nobody waits for one.
    fn check_free(&self, name: &str) -> Result<()> {
        if self.lobby.is_accepting(name) {
            return Err(Error::PeerState {
                peer: name.to_owned(),
                state: "being accepted",
                cure: "another thread waits for it",
            });
        }
        match self.peer(name) {
            Err(_) => Ok(()),
            Ok((_, peer)) if matches!(peer.stage, Stage::Gone(_)) => Ok(()),
            Ok((_, peer)) => Err(Error::PeerState {
                peer: name.to_owned(),
                state: peer.state(),
                cure: "it is known already; disconnect it first",
            }),
        }
    }

    /// Drops a peer that is over.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Some(key) = self.names.remove(name) {
            self.take_out(key);
        }
    }

    /// Takes a peer out for good. Its numbers stay in the session's.
    fn take_out(&mut self, key: PeerKey) -> Option<Peer> {
        let peer = self.peers.remove(key)?;
        self.departed.add(&peer.report(&self.ledger));
        Some(peer)
    }

    pub(crate) fn peer(&self, name: &str) -> Result<(PeerKey, &Peer)> {
        let found = self.names.get(name).and_then(|key| Some((*key, self.peers.get(*key)?)));
        found.ok_or_else(|| {
            let mut known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            known.sort_unstable();
            Error::UnknownPeer { peer: name.to_owned(), known: known.join(", ") }
        })
    }

    /// A peer to which transfers may be posted.
    pub(crate) fn peer_up(&mut self, key: PeerKey) -> Result<&mut Peer> {
        let peer = self.peers.get_mut(key).ok_or(Error::Closed)?;
        match &peer.stage {
            Stage::Up => Ok(peer),
            Stage::Gone(error) => Err(error.clone()),
            Stage::Closing(farewell) if farewell.has_heard_goodbye() => Err(Error::PeerGone {
                peer: peer.name().to_string(),
                phase: Phase::Send,
                how: Departure::Goodbye,
            }),
            _ => Err(Error::PeerState {
                peer: peer.name().to_string(),
                state: peer.state(),
                cure: "post transfers while it is up",
            }),
        }
    }

    /// One round over everything. Returns whether anything moved.
    pub(crate) fn progress(&mut self, now: Instant) -> bool {
        self.stages.round(now, self.batch.submitting());
        let mut moved = self.welcome_strangers(now);
        let keys = self.peers.keys().collect::<smallvec::SmallVec<[PeerKey; 16]>>();
        for key in &keys {
            let Some(peer) = self.peers.get_mut(*key) else { continue };
            match peer.progress(now, &self.env, &mut self.ledger, &mut self.batch) {
                Ok(peer_moved) => moved |= peer_moved,
                Err(error) => {
                    self.fail_peer(*key, error);
                    moved = true;
                }
            }
        }
        match self.unpack_round() {
            Ok(finished) => moved |= self.consume(now, &keys, finished),
            Err(failure) => {
                let (error, reached) = self.stop_unpacking(failure);
                self.end_all(&error, reached);
                moved = true;
            }
        }
        self.look(now);
        let settled = self.settle_parked(now);
        let mut activity = Activity { unpacking: self.batch.is_unpacking(), ..Activity::default() };
        self.peers.values().for_each(|peer| peer.note_activity(&mut activity));
        self.stages.ended(activity);
        moved | settled
    }

    fn consume(&mut self, now: Instant, keys: &[PeerKey], finished: BatchNumber) -> bool {
        let mut moved = false;
        for key in keys {
            let Some(peer) = self.peers.get_mut(*key) else { continue };
            match peer.consume(now, &mut self.ledger, finished) {
                Ok(peer_moved) => moved |= peer_moved,
                Err(error) => self.fail_peer(*key, error),
            }
        }
        moved
    }

    /// Ends a peer with an error. What is being unpacked from its bounce buffer, or gathered for it, is parked.
    pub(crate) fn fail_peer(&mut self, key: PeerKey, error: Error) {
        self.end_peer(key, error, self.batch.reached());
    }

    /// Ends every peer with an error. Nothing up to batch `reached` is being unpacked or gathered.
    fn end_all(&mut self, error: &Error, reached: BatchNumber) {
        for key in self.peers.keys().collect::<Vec<_>>() {
            self.end_peer(key, error.clone(), reached);
        }
    }

    fn end_peer(&mut self, key: PeerKey, error: Error, reached: BatchNumber) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        if matches!(peer.stage, Stage::Gone(_)) {
            return;
        }
        if !matches!(error, Error::PeerGone { how: Departure::Goodbye, .. } | Error::Closed) {
            self.peers_failed += 1;
            tracing::warn!(peer = %peer.name(), %error, "peer failed");
        }
        if let Some(mut leftover) = peer.fail(error.clone(), &mut self.ledger, reached) {
            if self.is_stuck {
                leftover.until = BatchNumber::NEVER;
            }
            self.parked.push(Parked::new(peer.name().clone(), key, error, leftover));
        }
    }

    /// Takes memory out. Every comm that knows it forgets it.
    pub(crate) fn deregister(&mut self, id: u64) -> Result<()> {
        let (peers, parked) = (&self.peers, &self.parked);
        self.ledger.registrations.remove(id, |comm, handle| {
            let _ = peers.values().any(|peer| peer.deregister(comm, handle))
                || Self::deregister_parked(parked, comm, handle);
        })
    }

    /// Whether nothing is left to say to any peer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.peers.values().all(|peer| matches!(peer.stage, Stage::Gone(_)))
    }

    /// Begins to say goodbye to everybody; peers that cannot be up at either end are dropped at once.
    pub(crate) fn start_close(&mut self) {
        self.is_closed = true;
        self.strangers = None;
        for key in self.peers.keys().collect::<Vec<_>>() {
            if !self.peers[key].start_farewell(&mut self.ledger) {
                self.fail_peer(key, Error::Closed);
            }
        }
    }

    /// Ends everything that is left.
    pub(crate) fn finish_close(&mut self) {
        self.is_closed = true;
        self.end_all(&Error::Closed, self.batch.reached());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        // Whatever a copy or kernel under way may still touch stays, for as long as the process lives.
        tracing::error!(
            peers = self.parked.len(),
            "memory that is still being unpacked is left behind"
        );
        std::mem::forget(std::mem::take(&mut self.parked));
        std::mem::forget(std::mem::take(&mut self.ledger.registrations));
        self.leave_unpacker();
    }
}

fn check_peer_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::Setting {
            name: "peer name",
            value: String::new(),
            reason: "must not be empty".into(),
        });
    }
    check_name("peer name", name)
}
