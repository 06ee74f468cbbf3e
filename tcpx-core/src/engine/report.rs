//! What the engine says of itself: its numbers, and what a wait that ended was waiting for.

use std::time::{Duration, Instant};

use super::Engine;
use crate::control::connector::Connector;
use crate::error::{Error, Phase};
use crate::peer::Peer;
use crate::plugin::Plugin;
use crate::stats::report::{SessionReport, StagingTimes};
use crate::types::PeerKey;

impl Engine {
    pub(crate) fn deadline(
        &self,
        phase: Phase,
        peer: Option<PeerKey>,
        waited: Duration,
        now: Instant,
    ) -> Error {
        let peer = peer.and_then(|key| self.peers.get(key));
        let connector = peer.and_then(Peer::connector);
        if let Some(error) = connector.and_then(Connector::why_unreached) {
            return error.clone();
        }
        let mut detail = peer.map_or("nothing came", |peer| peer.state()).to_owned();
        if let Some(silence) =
            peer.and_then(|peer| peer.silence(now)).filter(|silence| silence.as_secs() >= 1)
        {
            detail += &format!("; nothing was heard of it for {:.1} s", silence.as_secs_f64());
        }
        Error::Deadline { phase, peer: peer.map(|peer| peer.name().to_string()), waited, detail }
    }

    /// Closing took too long: who did not answer.
    pub(crate) fn close_deadline(&self, waited: Duration, now: Instant) -> Error {
        let silent = self.peers.values().filter(|peer| !peer.is_gone());
        let peers: Vec<String> = silent
            .map(|peer| {
                let silence = peer.silence(now).unwrap_or_default().as_secs_f64();
                format!("{} (nothing was heard of it for {silence:.1} s)", peer.name())
            })
            .collect();
        let detail = format!("no goodbye came from {}", peers.join(", "));
        Error::Deadline { phase: Phase::Close, peer: None, waited, detail }
    }

    pub(crate) fn report(&self) -> SessionReport {
        let plugin: &Plugin = &self.commons.session.plugin;
        let mut peers: Vec<_> = self.peers.values().map(|peer| peer.report()).collect();
        peers.sort_by(|left, right| left.name.cmp(&right.name));
        let mut sums = self.departed.clone();
        peers.iter().for_each(|peer| sums.add(peer));
        let (total, nics) = sums.into_parts();
        SessionReport {
            transport: if plugin.is_hardware() { "hardware" } else { "software" }.to_owned(),
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
