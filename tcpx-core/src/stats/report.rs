//! A session in numbers: channels, peers, sums.

use std::collections::BTreeMap;

use serde::Serialize;
use tcpx_protocol::stats::{EagerStats, OneSidedStats};

use super::ChannelStats;
use super::alarm::AlarmReport;
use super::stages::StageTimes;

/// Both lanes of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChannelReport {
    /// The NIC it runs over.
    pub nic: String,
    /// Chunks out.
    pub send: ChannelStats,
    /// Chunks in.
    pub recv: ChannelStats,
}

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeerReport {
    /// Its name.
    pub name: String,
    /// Its state in words.
    pub state: String,
    /// Bytes of a chunk that both ends agreed on.
    pub chunk_bytes: u32,
    /// Whether what travels on its control link is authenticated.
    pub link_authenticated: bool,
    /// Sends that found their receive, or went ahead of it.
    pub messages_sent: u64,
    /// Receives that found their send.
    pub messages_received: u64,
    /// Messages out that travelled on the control link; no channel counts them.
    pub eager_sent: EagerStats,
    /// Messages in that did.
    pub eager_received: EagerStats,
    /// What it has read and written of memory of this session, and notifications.
    pub one_sided: OneSidedStats,
    /// Notifications of its that wait here for the program.
    pub notifications_waiting: usize,
    /// Operations that ended with an error, cancelled ones included.
    pub errors: u64,
    /// Posted operations that have not ended.
    pub operations: usize,
    /// Receives that it has announced and no send of ours matches.
    pub announced: usize,
    /// Receives of ours that it does not take yet: they wait here to be announced.
    pub unannounced: usize,
    /// Messages that have gone ahead to it, of which no receive is known.
    pub eager_unreceived: usize,
    /// Messages of its that wait here for their receives.
    pub eager_kept: usize,
    /// Channels, in order; none before they are made.
    pub channels: Vec<ChannelReport>,
}

/// Everything since the session was made, over all peers, those that are gone included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Sends that found their receive, or went ahead of it.
    pub messages_sent: u64,
    /// Receives that found their send.
    pub messages_received: u64,
    /// Messages out that travelled on the control link; no channel counts them.
    pub eager_sent: EagerStats,
    /// Messages in that did.
    pub eager_received: EagerStats,
    /// What peers have read and written of memory of this session, and notifications.
    pub one_sided: OneSidedStats,
    /// Operations that ended with an error, cancelled ones included.
    pub errors: u64,
    /// Chunks out, of all channels.
    pub send: ChannelStats,
    /// Chunks in, of all channels.
    pub recv: ChannelStats,
}

/// Sums over peers, in total and by NIC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    total: Totals,
    nics: BTreeMap<String, ChannelReport>,
}

impl Sums {
    /// Counts a peer in.
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
            for (sums, lane) in [
                ([&mut self.total.send, &mut nic.send], &channel.send),
                ([&mut self.total.recv, &mut nic.recv], &channel.recv),
            ] {
                sums.into_iter().for_each(|sum| sum.add(lane));
            }
        }
    }

    /// The total, and the sums by NIC in the order of the names.
    pub(crate) fn into_parts(self) -> (Totals, Vec<ChannelReport>) {
        (self.total, self.nics.into_values().collect())
    }
}

/// Copies that the software plugin has made between GPUs and pinned memory, for all sessions of the
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StagingTimes {
    /// Bytes from GPUs, to be sent.
    pub down_bytes: u64,
    /// Nanoseconds in which a channel had such a copy under way, summed over channels.
    pub down_ns: u64,
    /// Bytes to a bounce region in GPU memory.
    pub up_bytes: u64,
    /// As `down_ns`, for those.
    pub up_ns: u64,
}

/// The memory in which a session gathers scattered small sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StagingMemory {
    /// Bytes that it may come to: the option `staging_bytes`, or less where there was no memory.
    pub limit_bytes: u64,
    /// Bytes that are allocated, used or not, until the session ends.
    pub allocated_bytes: u64,
    /// Bytes that open channels have for themselves.
    pub used_bytes: u64,
}

/// A session as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionReport {
    /// The option `name`; may be empty.
    pub name: String,
    /// "host", or "gpu" with the GPU's ordinal.
    pub device: String,
    /// `"software"`, `"hardware"` or `"devmem"`.
    pub transport: String,
    /// The plugin's name member.
    pub plugin_name: String,
    /// Where the plugin came from.
    pub plugin_path: String,
    /// `"emulated"` or `"cuda"`: what device memory is in this session.
    pub device_memory: String,
    /// The unpack backend.
    pub unpack: String,
    /// Why this backend.
    pub unpack_why: String,
    /// Batches of chunks that were unpacked, or gathered from device memory.
    pub unpack_batches: u64,
    /// Nanoseconds from the submit of a batch until it was seen to be finished, summed.
    pub unpack_ns: u64,
    /// What the session's time went to.
    pub stages: StageTimes,
    /// Copies between GPUs and pinned memory in the built-in software plugin. All are 0 when the
    /// software plugin is loaded as a file. `None` with a hardware plugin.
    pub staging: Option<StagingTimes>,
    /// Memory in which scattered small sends are gathered.
    pub staging_memory: StagingMemory,
    /// Peers that failed so far, forgotten ones included.
    pub peers_failed: u64,
    /// Trouble that was noticed while running, by id; see `tcpx explain`.
    pub alarms: Vec<AlarmReport>,
    /// Peers that have ended while their chunks are still being unpacked or gathered, or whose
    /// memory something uses for too long. Their comms and registrations are kept as they are. More
    /// than 0 for more than a moment means that the GPU hangs, or the plugin does.
    pub peers_parked: usize,
    /// Calls of the plugin that have not returned for more than 10 s. Each is left behind with its
    /// comm.
    pub plugin_calls_hung: usize,
    /// Bytes that peers make this session keep for them, or may, beside 144 KiB for each: receives
    /// that they announce, lists of ranges, messages ahead of receives, and notifications, also
    /// those of peers that have ended. No more than
    /// [`kept_for_peers_bytes`](crate::SessionOptions::kept_for_peers_bytes).
    pub kept_for_peers_bytes: u64,
    /// Notifications that wait here for the program, those of peers that have ended included.
    pub notifications_waiting: usize,
    /// Everything since the session was made.
    pub total: Totals,
    /// Peers by name, as they are now.
    pub peers: Vec<PeerReport>,
    /// Everything since the session was made, by NIC, in the order of the NICs' names.
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
        let mut sums = Sums::default();
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
            .map(|nic| (nic.nic.as_str(), nic.send.bytes, nic.send.window_peak, nic.recv.bytes))
            .collect();
        assert_eq!(summary, [("eth1", 10, 1, 20), ("eth2", 101, 3, 202)]);
    }
}
