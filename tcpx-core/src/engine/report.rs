//! What the engine says of itself: its numbers, and what a wait that ended was waiting for.

use std::time::{Duration, Instant};

use tcpx_protocol::peer::withdrawing::Unmatched;
use tcpx_protocol::types::TransferKey;

use super::Engine;
use crate::control::connector::Connector;
use crate::error::awaited::{AwaitedPeer, AwaitedTransfer};
use crate::error::{Awaited, Error, Phase};
use crate::peer::Peer;
use crate::peer::connection::Connection;
use crate::plugin::Plugin;
use crate::stats::report::{PeerReport, SessionReport, StagingTimes};
use crate::types::PeerKey;

/// Whoever waits for so long has the NICs looked at, which takes a read of a file for each.
const LOOKS_AT_NICS: Duration = Duration::from_secs(1);

impl Engine {
    /// Waiting for a peer took too long: what it is up to.
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

    /// Waiting for a transfer took too long: what is missing.
    pub(crate) fn transfer_deadline(
        &self,
        key: TransferKey,
        waited: Duration,
        now: Instant,
    ) -> Error {
        let Ok(transfer) = self.commons.ledger.transfers.get(key) else { return Error::Closed };
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

    pub(crate) fn name_of(&self, key: PeerKey) -> Option<String> {
        self.peers.get(key).map(|peer| peer.name().to_string())
    }

    /// Closing took too long: who did not answer.
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
        let plugin: &Plugin = &self.commons.session.plugin;
        let notifications = &self.commons.ledger.notifications;
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
            // The session knows its own.
            name: String::new(),
            device: String::new(),
            transport: plugin.transport_name(&self.commons.session.memory).to_owned(),
            plugin_name: plugin.name().to_owned(),
            plugin_path: plugin.path().display().to_string(),
            device_memory: self.commons.session.memory.name().to_owned(),
            unpack: self.unpack.backend().to_string(),
            unpack_why: self.unpack_why.clone(),
            unpack_batches: self.unpack_batches,
            unpack_ns: self.commons.batch.busy().as_nanos() as u64,
            stages: self.stages.times(),
            staging: staging(plugin),
            staging_memory: self.commons.ledger.staging.report(),
            peers_failed: self.peers_failed,
            alarms: self.watch.alarms.report(),
            peers_parked: self.peers_parked(),
            plugin_calls_hung: self.hung_calls(Instant::now()).len(),
            kept_for_peers_bytes: self.commons.session.kept.used(),
            notifications_waiting: notifications.waiting(),
            total,
            nics,
            peers,
        }
    }
}

/// What the software plugin copied, where it is the one that is built in.
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
