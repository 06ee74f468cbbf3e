//! Progress engine of a session: all state behind one lock, moved by `progress`.
//!
//! - `agenda`: which peers a round drives. Pure.
//! - `round`: one round over them, and when the next round is due.
//! - `deadlines`: transfers and operations with a time limit. Pure.
//! - `deregistration`: memory that is deregistered. `registering`: memory that is registered, or
//!   being copied, and what of it peers may reach.
//! - `inbox`: posts and deferred calls that were handed in while another thread had the engine.
//! - `hung_calls`: calls of the plugin that do not return, or are never ready, and the answers of
//!   the daemon that they may wait for.
//! - `meeting`: how peers meet this session, by a connect or by themselves, and how they leave it.
//!   A room of its own.
//! - `operating`: operations on memory of peers, and notifications. `prepared_pairs`: both ends of
//!   a list. Pure.
//! - `posting`: transfers, and posts to them.
//! - `report`: the engine in numbers, and what an expired wait was waiting for.
//! - `unpacking`: a batch each round, the end after a failure, and the remains of peers that ended
//!   while a copy was under way.
//! - `watching`: problems that the counters show, hung calls, and overdue work.
//!
//! # What lies outside the lock
//!
//! All state of a device is in [`Engine`], behind one lock, except the state of frequent calls of a
//! program. The state of a transfer is a `TransferCell` of atomics, which its owner shares with the
//! engine. The queue of complete transfers has a lock of its own. A post that finds the engine
//! locked is checked against what `inbox` knows of memory and peer, and left there. The thread that
//! locks the engine next posts it before anything else. So the call reports mistakes; the operation
//! reports only later failures, such as the end of the peer.
//!
//! While the lock is held no code of a program runs, except its log callback or `tracing`
//! subscriber.

mod agenda;
mod deadlines;
pub(crate) mod deregistration;
mod hung_calls;
pub(crate) mod inbox;
pub(crate) mod meeting;
pub(crate) mod operating;
pub(crate) mod posting;
mod prepared_pairs;
pub(crate) mod registering;
mod report;
pub(crate) mod round;
mod unpacking;
mod watching;

use std::sync::Arc;
use std::time::Instant;

use foldhash::{HashMap, HashMapExt};
use slotmap::SlotMap;
use tcpx_protocol::exports::capability::StableKeys;
use tcpx_protocol::exports::table::Exports;
use tcpx_protocol::peer::message::NewOperation;
use tcpx_protocol::types::PreparedKey;
use tcpx_protocol::types::memory::Device;

use self::agenda::Agenda;
use self::deadlines::Deadlines;
use self::hung_calls::HungCalls;
use self::inbox::{DeferredCalls, Inbox};
use self::meeting::Meeting;
use self::meeting::device_context::DeviceContext;
use self::prepared_pairs::Prepared;
use self::unpacking::Unpacking;
use super::stats::watch::SessionWatch;
use crate::completions::notification_queue::NotificationQueue;
use crate::control::identity::{ChannelOffer, random};
use crate::error::{Error, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::peer::resources::{Ledger, Resources};
use crate::peer::session_context::SessionContext;
use crate::peer::{Peer, PeerStatus};
use crate::plugin::nics::{self, SessionNics};
use crate::plugin::registrations::Registrations;
use crate::plugin::{Plugin, chunk_size};
use crate::settings::SessionOptions;
use crate::stats::report::ReportSums;
use crate::stats::stages::{Activity, StageClock};
use crate::transfer::batch::Batch;
use crate::transfer::link_buffers::LinkBuffers;
use crate::transfer::staging_pool::StagingPool;
use crate::transfer::transfers::Transfers;
use crate::types::PeerKey;
use crate::workers::Workers;

pub(crate) use unpacking::UNPACK_TIMEOUT;

/// All state of a session.
pub(crate) struct Engine {
    pub(crate) resources: Resources,
    peers: SlotMap<PeerKey, Peer>,
    agenda: Agenda,
    names: HashMap<String, PeerKey>,
    pub(crate) meeting: Meeting,
    deadlines: Deadlines,
    unpacking: Unpacking,
    /// Reason why nothing is encrypted although the session prefers it.
    not_encrypted: Option<&'static str>,
    peers_failed: u64,
    /// Whether something about peers has changed since the last call of `take_news`.
    has_news: bool,
    /// Sums of the counters of forgotten peers.
    departed: ReportSums,
    watch: SessionWatch,
    /// Time at which the peers were last asked for a sign of life, for a program that awaits
    /// notifications.
    asked_at: Option<Instant>,
    hung_calls: HungCalls,
    /// Prepared operations.
    prepared: SlotMap<PreparedKey, Prepared>,
    /// Posts of callers that did not wait for the engine.
    inbox: Arc<Inbox>,
    /// Deferred calls of other threads.
    deferred_calls: Arc<DeferredCalls>,
    /// Buffer for posts that are taken out of `inbox`.
    handed_in: Vec<NewOperation>,
    /// Buffer for a batch of posts.
    posting: Vec<NewOperation>,
    /// Whether something was posted since the last round.
    has_posted: bool,
    /// Time of the leader's next round, unless the leader is woken before.
    resting_until: Option<Instant>,
    /// Buffer for the peers whose chunks are polled.
    holding: Vec<PeerKey>,
    stages: StageClock,
    /// Work that has ended since the last round.
    ended: Activity,
    is_closed: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("peers", &self.names)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(options: SessionOptions, context: DeviceContext) -> Result<Self> {
        options.check()?;
        let memory = DeviceMemory::open(options.gpu)?;
        let plugin = Plugin::open(&options)?;
        plugin.check_carrier(&options, &memory)?;
        plugin.log_gpu_reach(&memory);
        let nics = SessionNics::new(&plugin, &options.nics, &memory)?;
        let limits = nics::chunk_limits(&plugin, &nics, &memory)?;
        let packet_bytes = chunk_size::packet_bytes(&limits);
        let chunk_bytes = chunk_size::choose(options.chunk_bytes, limits)?;
        options.check_gpu(plugin.is_hardware())?;
        let link_bytes = options.link_bytes.for_plugin(plugin.is_hardware());
        let encryption = plugin.check_encryption(options.encryption, &memory)?;
        let options = SessionOptions { link_bytes, encryption: encryption.setting, ..options };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let copy_threads = options.copy_threads.count(processors);
        let unpack = options.unpack_of(memory.kind());
        let mut opened = tcpx_unpack::open_with_threads(unpack, memory.kind(), copy_threads)?;
        tracing::info!(
            plugin = plugin.name(), path = %plugin.path().display(), unpack = %opened.unpack.backend(), why = %opened.why,
            "session created"
        );
        let staging = StagingPool::new(options.staging_bytes);
        let workers = Workers::default();
        let ids_before = context.device.ids_before();
        let registrations = Registrations::new(workers.clone(), plugin.receives_host(), ids_before);
        let transfers = Transfers::new(Arc::clone(&context.completions));
        let exports = Exports::new(StableKeys::new(random()?));
        let backend = opened.unpack.backend();
        let channels = channel_offer(&options, &plugin, &memory, processors);
        let identity =
            context.identity(&options, plugin.name(), chunk_bytes, channels).with_nics(nics);
        let session =
            SessionContext::new(options, plugin, packet_bytes, memory, backend, identity)?;
        let completions = Arc::clone(&context.completions);
        let notifications = Arc::new(NotificationQueue::new(completions, &session.kept));
        let listener = context.listener(&session)?;
        let batch = Batch::new(session.batch_bytes(copy_threads));
        let deferred_calls = Arc::new(DeferredCalls::new(Arc::clone(&session.poller)));
        let unpack_tells = opened.unpack.on_finished(Box::new(session.poller.waker()));
        Ok(Self {
            resources: Resources {
                session,
                ledger: Ledger {
                    transfers,
                    registrations,
                    exports,
                    staging,
                    link_buffers: LinkBuffers::default(),
                    notifications,
                },
                batch,
                workers,
            },
            peers: SlotMap::with_key(),
            agenda: Agenda::default(),
            names: HashMap::new(),
            meeting: Meeting::new(context, listener),
            deadlines: Deadlines::default(),
            unpacking: Unpacking::new(opened, unpack_tells),
            not_encrypted: encryption.refusal,
            peers_failed: 0,
            has_news: false,
            departed: ReportSums::default(),
            watch: SessionWatch::default(),
            asked_at: None,
            hung_calls: HungCalls::default(),
            prepared: SlotMap::with_key(),
            inbox: Arc::default(),
            deferred_calls,
            handed_in: Vec::new(),
            posting: Vec::new(),
            has_posted: false,
            resting_until: None,
            holding: Vec::new(),
            stages: StageClock::default(),
            ended: Activity::default(),
            is_closed: false,
        })
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn peer(&self, name: &str) -> Result<(PeerKey, &Peer)> {
        let found = self.names.get(name).and_then(|key| Some((*key, self.peers.get(*key)?)));
        found.ok_or_else(|| unknown(name, self.names.keys()))
    }

    /// Returns the device of this engine.
    pub(super) fn device(&self) -> Device {
        self.meeting.device()
    }

    pub(crate) fn name_of(&self, key: PeerKey) -> Option<String> {
        self.peers.get(key).map(|peer| peer.name().to_string())
    }

    /// Returns the status of a peer; `None`: the peer is forgotten.
    pub(crate) fn status(&self, key: PeerKey) -> Option<PeerStatus<'_>> {
        self.peers.get(key).map(Peer::status)
    }
}

/// Returns the channels that a session offers each peer.
fn channel_offer(
    options: &SessionOptions,
    plugin: &Plugin,
    memory: &DeviceMemory,
    processors: usize,
) -> ChannelOffer {
    let nics = options.nics.len();
    match options.channels.filter(|channels| *channels > 0) {
        Some(channels) => ChannelOffer::Asked(channels),
        None if plugin.takes_packets(memory) => ChannelOffer::by_nics(nics),
        None => ChannelOffer::by_processors(processors, nics),
    }
}

/// Returns the error of a name that is not among the known names.
fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Error {
    let mut known: Vec<&str> = known.map(String::as_str).collect();
    known.sort_unstable();
    Error::UnknownPeer { peer: name.to_owned(), known: known.join(", ") }
}
