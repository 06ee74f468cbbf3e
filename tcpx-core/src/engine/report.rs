//! Reports of the engine: its numbers, what an expired wait was waiting for, and slow calls of the
//! plugin.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tcpx_protocol::peer::tags::withdrawing::Unmatched;
use tcpx_protocol::types::TransferKey;

use super::Engine;
use super::unpacking::UNPACK_TIMEOUT;
use crate::control::connector::Connector;
use crate::error::awaited::{AwaitedPeer, AwaitedTransfer};
use crate::error::{Awaited, Error, Phase, PluginHang};
use crate::peer::Peer;
use crate::peer::connection::Connection;
use crate::plugin::Plugin;
use crate::plugin::calls::{CALL_TIMEOUT, LongCall};
use crate::stats::report::{PeerReport, SessionReport, StagingTimes};
use crate::types::PeerKey;

/// Duration of a wait after which the NICs are checked, which takes a read of a file for each.
const LOOKS_AT_NICS: Duration = Duration::from_secs(1);

impl Engine {
    /// Returns the error of a wait for a peer that took too long, with the peer's state.
    pub(crate) fn deadline(
        &self,
        phase: Phase,
        key: PeerKey,
        waited: Duration,
        now: Instant,
    ) -> Error {
        if let Some(hang) = self.long_call_of(key, now) {
            return Error::PluginHangs(hang);
        }
        let connector = self.peers.get(key).and_then(Peer::connector);
        if let Some(error) = connector.and_then(Connector::why_unreached) {
            return error.clone();
        }
        let detail = Awaited::peer(self.awaited_peer(key, now));
        Error::Deadline { phase, peer: self.name_of(key), waited, detail }
    }

    /// Returns the error of a wait for a transfer that took too long, with what is missing.
    pub(crate) fn transfer_deadline(
        &self,
        key: TransferKey,
        waited: Duration,
        now: Instant,
    ) -> Error {
        let Ok(transfer) = self.resources.ledger.transfers.get(key) else { return Error::Closed };
        let (peer, counts) = (transfer.peer, transfer.round_counts());
        let connection = self.peers.get(peer).and_then(|peer| peer.connection());
        let unmatched = connection.map(|connection| connection.unmatched(key));
        let Unmatched { count, oldest } = unmatched.unwrap_or_default();
        let direction = oldest.map_or_else(|| transfer.direction(), |(direction, _)| direction);
        let awaited = AwaitedTransfer {
            operations_done: counts.operations_done,
            operations_posted: counts.operations_posted,
            chunks_done: counts.chunks_done,
            chunks_posted: counts.chunks_posted,
            unmatched: count,
            oldest,
            down: connection.filter(|_| waited >= LOOKS_AT_NICS).and_then(Connection::down_nic),
        };
        let detail = Awaited::transfer(awaited, self.awaited_peer(peer, now));
        let phase = Phase::of(direction);
        Error::Deadline { phase, peer: self.name_of(peer), waited, detail }
    }

    fn awaited_peer(&self, key: PeerKey, now: Instant) -> AwaitedPeer {
        let peer = self.peers.get(key);
        let state = peer.map_or("gone", Peer::state);
        AwaitedPeer { state, silence: peer.and_then(|peer| peer.silence(now)) }
    }

    /// Returns the error of a close that took too long, with the peers that did not answer.
    pub(crate) fn close_deadline(&self, waited: Duration, now: Instant) -> Error {
        let left = || self.peers.iter().filter(|(_, peer)| !peer.is_gone());
        if let Some(hang) = left().find_map(|(key, _)| self.long_call_of(key, now)) {
            return Error::PluginHangs(hang);
        }
        let peers: Vec<String> = left()
            .map(|(_, peer)| {
                let silence = peer.silence(now).unwrap_or_default().as_secs_f64();
                format!("{} (nothing was heard of it for {silence:.1} s)", peer.name())
            })
            .collect();
        let detail = Awaited::words(format!("no goodbye came from {}", peers.join(", ")));
        Error::Deadline { phase: Phase::Close, peer: None, waited, detail }
    }

    pub(crate) fn report(&self) -> SessionReport {
        let plugin: &Plugin = &self.resources.session.plugin;
        let notifications = &self.resources.ledger.notifications;
        let report = |(key, peer): (PeerKey, &Peer)| {
            let notifications_waiting = notifications.waiting_of(key);
            PeerReport { notifications_waiting, ..peer.report() }
        };
        let mut peers: Vec<_> = self.peers.iter().map(report).collect();
        peers.sort_by(|left, right| left.name.cmp(&right.name));
        let mut sums = self.departed.clone();
        peers.iter().for_each(|peer| sums.add(peer));
        let (total, nics) = sums.into_parts();
        SessionReport {
            // The session knows its own name.
            name: String::new(),
            device: String::new(),
            transport: plugin.transport_name(&self.resources.session.memory).to_owned(),
            plugin_name: plugin.name().to_owned(),
            plugin_path: plugin.path().display().to_string(),
            device_memory: self.resources.session.memory.name().to_owned(),
            encryption: self.resources.session.options.encryption.to_string(),
            not_encrypted: self.not_encrypted.map(str::to_owned),
            unpack: self.unpacking.backend().to_string(),
            unpack_why: self.unpacking.why().to_owned(),
            unpack_batches: self.unpacking.batches(),
            unpack_ns: self.resources.batch.busy().as_nanos() as u64,
            stages: self.stages.times(),
            staging: staging(plugin),
            staging_memory: self.resources.ledger.staging.report(),
            peers_failed: self.peers_failed,
            alarms: self.watch.alarms.report(),
            peers_parked: self.unpacking.held(self.resources.batch.reached()),
            plugin_calls_hung: self.hung_calls(Instant::now()).len(),
            kept_for_peers_bytes: self.resources.session.kept.used(),
            notifications_waiting: notifications.waiting(),
            total,
            nics,
            peers,
        }
    }
}

/// Returns the copy times of the software plugin, where that is the built-in one.
#[cfg(feature = "soft")]
fn staging(plugin: &Plugin) -> Option<StagingTimes> {
    if plugin.is_hardware() {
        return None;
    }
    let stats = tcpx_softnet::staging_stats();
    Some(StagingTimes {
        down_bytes: stats.down_bytes,
        down_ns: stats.down_ns,
        up_bytes: stats.up_bytes,
        up_ns: stats.up_ns,
    })
}

#[cfg(not(feature = "soft"))]
fn staging(_: &Plugin) -> Option<StagingTimes> {
    None
}

/// Duration of a call after which it is reported where its peer's deadline passes, and the daemon
/// of the hardware plugin is asked.
pub(super) const LONG: Duration = Duration::from_secs(2);

impl Engine {
    /// Returns hung calls.
    pub(super) fn hung_calls(&self, now: Instant) -> SmallVec<[LongCall; 1]> {
        self.calls_longer_than(CALL_TIMEOUT, now)
    }

    /// Returns a call for this peer that is slow, or that is not ready for a known reason.
    pub(super) fn long_call_of(&self, key: PeerKey, now: Instant) -> Option<PluginHang> {
        let pending = self.peers.get(key).and_then(|peer| peer.pending_accept(LONG, now));
        let mut long = self.calls_longer_than(LONG, now).into_iter().chain(pending);
        let of_peer = long.find(|call| call.peer == key && self.hung_calls.is_cause(call))?;
        Some(self.hung_calls.explain(of_peer))
    }

    /// Returns the time to wait for the workers at the end: zero, if one of them hangs.
    pub(crate) fn patience_with_workers(&self) -> Duration {
        if self.has_long_calls() { Duration::ZERO } else { UNPACK_TIMEOUT }
    }

    /// Returns whether a call takes long enough that memory it may use should stay.
    pub(super) fn has_long_calls(&self) -> bool {
        !self.calls_longer_than(LONG, Instant::now()).is_empty()
    }

    pub(super) fn calls_longer_than(
        &self,
        time: Duration,
        now: Instant,
    ) -> SmallVec<[LongCall; 1]> {
        let session = &self.resources.session;
        session.plugin.calls_longer_than(time, session.number, now)
    }
}
