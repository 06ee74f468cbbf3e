//! Report on a session in numbers: channels, peers, sums.

use std::collections::BTreeMap;

use serde::Serialize;
use tcpx_protocol::stats::{EagerStats, OneSidedStats};

use super::ChannelStats;
use super::alarm::AlarmReport;
use super::peer_transport::PeerTransport;
use super::stages::StageTimes;
use super::tcp::TcpStats;

/// Both lanes of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChannelReport {
    /// NIC that the channel runs over.
    pub nic: String,
    /// Outgoing chunks.
    pub send: ChannelStats,
    /// Incoming chunks.
    pub recv: ChannelStats,
    /// TCP connections over which chunks are sent.
    pub tcp: TcpStats,
    /// Number of losses: 1 for a channel that is lost while work goes on over the peer's others.
    pub lost: u64,
}

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeerReport {
    /// Name of the peer.
    pub name: String,
    /// State of the peer in words.
    pub state: String,
    /// Bytes of a chunk that both ends agreed on.
    pub chunk_bytes: u32,
    /// What carries its bytes. `None`: its link is not proven yet, or has ended.
    pub transport: Option<PeerTransport>,
    /// Whether the control link is encrypted.
    pub link_encrypted: bool,
    /// TCP connection of the control link.
    pub link_tcp: TcpStats,
    /// Number of sends that were matched, or sent eagerly.
    pub messages_sent: u64,
    /// Number of receives that were matched.
    pub messages_received: u64,
    /// Outgoing messages on the control link; no channel counts them.
    pub eager_sent: EagerStats,
    /// Incoming messages on the control link; no channel counts them.
    pub eager_received: EagerStats,
    /// Reads and writes of this session's memory by the peer, and notifications.
    pub one_sided: OneSidedStats,
    /// Number of notifications from the peer that wait here for the program.
    pub notifications_waiting: usize,
    /// Number of operations that ended with an error, cancelled ones included.
    pub errors: u64,
    /// Number of posted operations that have not ended.
    pub operations: usize,
    /// Number of receives posted by the peer that match no send of this session.
    pub announced: usize,
    /// Number of receives of this session that the peer has no room for yet. They wait here.
    pub unannounced: usize,
    /// Number of messages that were sent eagerly to the peer, and whose receive is not known yet.
    pub eager_unreceived: usize,
    /// Number of unexpected messages from the peer that wait here for their receives.
    pub eager_kept: usize,
    /// Channels, in order. Empty until they are made.
    pub channels: Vec<ChannelReport>,
}

/// Totals since the session was made, over all peers. Peers that are gone are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Number of sends that were matched, or sent eagerly.
    pub messages_sent: u64,
    /// Number of receives that were matched.
    pub messages_received: u64,
    /// Outgoing messages on the control link; no channel counts them.
    pub eager_sent: EagerStats,
    /// Incoming messages on the control link; no channel counts them.
    pub eager_received: EagerStats,
    /// Reads and writes of this session's memory by peers, and notifications.
    pub one_sided: OneSidedStats,
    /// Number of operations that ended with an error, cancelled ones included.
    pub errors: u64,
    /// Outgoing chunks of all channels.
    pub send: ChannelStats,
    /// Incoming chunks of all channels.
    pub recv: ChannelStats,
}

/// Sums over peers, in total and by NIC.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportSums {
    total: Totals,
    nics: BTreeMap<String, ChannelReport>,
}

impl ReportSums {
    /// Adds a peer.
    pub(crate) fn add(&mut self, peer: &PeerReport) {
        self.total.messages_sent += peer.messages_sent;
        self.total.messages_received += peer.messages_received;
        self.total.eager_sent.add(&peer.eager_sent);
        self.total.eager_received.add(&peer.eager_received);
        self.total.one_sided.add(&peer.one_sided);
        self.total.errors += peer.errors;
        for channel in &peer.channels {
            let nic = match self.nics.get_mut(&channel.nic) {
                Some(nic) => nic,
                None => {
                    let new = ChannelReport { nic: channel.nic.clone(), ..Default::default() };
                    self.nics.entry(channel.nic.clone()).or_insert(new)
                }
            };
            nic.tcp.add(&channel.tcp);
            nic.lost += channel.lost;
            for (sums, lane) in [
                ([&mut self.total.send, &mut nic.send], &channel.send),
                ([&mut self.total.recv, &mut nic.recv], &channel.recv),
            ] {
                sums.into_iter().for_each(|sum| sum.add(lane));
            }
        }
    }

    /// Returns the total, and the sums by NIC in the order of the names.
    pub(crate) fn into_parts(self) -> (Totals, Vec<ChannelReport>) {
        (self.total, self.nics.into_values().collect())
    }
}

/// Copies that the software plugin has made between GPUs and pinned memory, for all sessions of the
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StagingTimes {
    /// Number of bytes copied from GPUs, to be sent.
    pub down_bytes: u64,
    /// Nanoseconds in which a channel had such a copy in progress, summed over channels.
    pub down_ns: u64,
    /// Number of bytes copied to a bounce region in GPU memory.
    pub up_bytes: u64,
    /// Nanoseconds of the copies to GPU memory, counted as for `down_ns`.
    pub up_ns: u64,
}

/// Memory in which a session gathers scattered small sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StagingMemory {
    /// Limit in bytes: the option `staging_bytes`, or less where there was no memory.
    pub limit_bytes: u64,
    /// Number of bytes that are allocated, used or not, until the session ends.
    pub allocated_bytes: u64,
    /// Number of bytes that open channels have for themselves.
    pub used_bytes: u64,
}

/// Report on a session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionReport {
    /// Option `name`; may be empty.
    pub name: String,
    /// "host", or "gpu" with the GPU's ordinal.
    pub device: String,
    /// `"software"`, `"hardware"` or `"devmem"`.
    pub transport: String,
    /// Name member of the plugin.
    pub plugin_name: String,
    /// Path that the plugin came from.
    pub plugin_path: String,
    /// Kind of device memory in this session: `"emulated"` or `"cuda"`.
    pub device_memory: String,
    /// Setting of encryption in use: `"off"`, `"prefer"` or `"require"`.
    pub encryption: String,
    /// Reason why the transport encrypts nothing, in a session that prefers encryption. `None`:
    /// `encryption` is what the session was made with.
    pub not_encrypted: Option<String>,
    /// Unpack backend.
    pub unpack: String,
    /// Reason for this backend.
    pub unpack_why: String,
    /// Number of batches of chunks that were unpacked, or gathered from device memory.
    pub unpack_batches: u64,
    /// Nanoseconds from the submit of a batch until its completion was seen, summed.
    pub unpack_ns: u64,
    /// Breakdown of the session's time by stage.
    pub stages: StageTimes,
    /// Copies between GPUs and pinned memory in the built-in software plugin. All are 0 when the
    /// software plugin is loaded as a file. `None` with a hardware plugin.
    pub staging: Option<StagingTimes>,
    /// Memory in which scattered small sends are gathered.
    pub staging_memory: StagingMemory,
    /// Number of peers that failed so far, forgotten ones included.
    pub peers_failed: u64,
    /// Trouble that was noticed while running, by id; see `tcpx explain`.
    pub alarms: Vec<AlarmReport>,
    /// Number of lingering peers. Such a peer has ended, but its chunks are still being unpacked or
    /// gathered, or its memory is in use for too long. Its comms and registrations are kept as they
    /// are. A number above 0 for more than a moment means that the GPU or the plugin hangs.
    pub peers_parked: usize,
    /// Number of calls of the plugin that have not returned for more than 10 s. Each is abandoned
    /// with its comm.
    pub plugin_calls_hung: usize,
    /// Number of bytes that this session keeps for peers, or may have to, beyond 144 KiB for each.
    /// They are announced receives, lists of ranges, unexpected messages, and notifications, also
    /// those of peers that have ended. No more than
    /// [`kept_for_peers_bytes`](crate::SessionOptions::kept_for_peers_bytes).
    pub kept_for_peers_bytes: u64,
    /// Number of notifications that wait here for the program. Those of peers that have ended are
    /// included.
    pub notifications_waiting: usize,
    /// Totals since the session was made.
    pub total: Totals,
    /// Current peers by name.
    pub peers: Vec<PeerReport>,
    /// Totals since the session was made, by NIC, in the order of the NICs' names.
    pub nics: Vec<ChannelReport>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_summed_in_total_and_by_nic() {
        let channel = |nic: &str, bytes, peak| ChannelReport {
            nic: nic.into(),
            send: ChannelStats { bytes, window_peak: peak, ..ChannelStats::default() },
            recv: ChannelStats { bytes: 2 * bytes, ..ChannelStats::default() },
            tcp: TcpStats::of_connection(1, peak as u32),
            lost: 1,
        };
        let on_link = |messages, bytes| {
            let mut counted = EagerStats::default();
            (counted.messages, counted.bytes) = (messages, bytes);
            counted
        };
        let peer = |channels| PeerReport {
            messages_sent: 1,
            messages_received: 2,
            eager_sent: on_link(4, 5),
            eager_received: on_link(6, 7),
            errors: 3,
            channels,
            ..PeerReport::default()
        };
        let mut sums = ReportSums::default();
        sums.add(&peer(vec![channel("eth2", 1, 3), channel("eth1", 10, 1)]));
        sums.add(&peer(vec![channel("eth2", 100, 2)]));
        let (total, nics) = sums.into_parts();
        assert_eq!((total.messages_sent, total.messages_received, total.errors), (2, 4, 6));
        let eager = [(total.eager_sent, (8, 10)), (total.eager_received, (12, 14))];
        for (sum, (messages, bytes)) in eager {
            assert_eq!(sum, on_link(messages, bytes));
        }
        assert_eq!((total.send.bytes, total.send.window_peak, total.recv.bytes), (111, 3, 222));
        let summary: Vec<_> = nics
            .iter()
            .map(|nic| {
                (nic.nic.as_str(), nic.send.bytes, nic.send.window_peak, nic.recv.bytes, nic.lost)
            })
            .collect();
        assert_eq!(summary, [("eth1", 10, 1, 20, 1), ("eth2", 101, 3, 202, 2)]);
    }
}
