#![allow(unsafe_code)]
//! Counters of a session: sums in a struct, and everything as JSON.

use std::collections::BTreeMap;
use std::ffi::c_char;

use tcpx_core::{ChannelStats, OneSidedStats, SessionReport};

use crate::boundary;
use crate::extensible::{self, Extensible};
use crate::failure::Failure;
use crate::output::ByteOutput;
use crate::session::tcpx_session;
use crate::status::tcpx_status::{self, TCPX_ERR_INTERNAL};

/// Sums over everything since the session was made, including peers that are gone.
///
/// Only `peers` and `channels` are what the session has now. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_session_stats {
    /// sizeof(tcpx_session_stats), set by the program before the call.
    pub size: usize,
    /// Current peers, in whatever state.
    pub peers: u64,
    /// Channels to these peers. A peer that has not needed a channel yet has none.
    pub channels: u64,
    /// Chunks sent.
    pub chunks_sent: u64,
    /// Bytes of these chunks.
    pub bytes_sent: u64,
    /// Chunks received and unpacked.
    pub chunks_received: u64,
    /// Bytes of these chunks.
    pub bytes_received: u64,
    /// Fragments in which receives arrived.
    pub fragments: u64,
    /// Fragments that were merged into a neighbour before unpacking.
    pub fragments_merged: u64,
    /// Times that a chunk waited because its channel's window was full.
    pub window_full: u64,
    /// Times that the plugin could not take a request and had to be asked again.
    pub plugin_busy: u64,
    /// Batches of chunks that were unpacked.
    pub unpack_batches: u64,
    /// Nanoseconds from the submit of a batch until its completion was seen, summed over all
    /// batches.
    pub unpack_ns: u64,
    /// Sends that found their receive, or went ahead of it.
    pub messages_sent: u64,
    /// Receives that found their send.
    pub messages_received: u64,
    /// Operations that ended with an error, including those that were cancelled.
    pub errors: u64,
    /// Peers that failed so far, including those that are gone.
    pub peers_failed: u64,
    /// Times that the session noticed trouble. The JSON has them by the id of the diagnosis.
    pub alarms: u64,
    /// Lingering peers: their chunks are still being unpacked or gathered after their end, or their
    /// memory has been in use for too long. Memory that is registered for them stays in use. If
    /// this is above 0 for more than a moment, the GPU or the plugin hangs.
    pub peers_parked: u64,
    /// Bytes of memory that open channels have for gathering scattered small sends.
    pub staging_bytes: u64,
    /// Calls of the plugin that have not returned for more than 10 seconds. Each is left behind
    /// with its comm.
    pub plugin_calls_hung: u64,
    /// Times that a chunk waited because the peer's bounce buffer had no room for it.
    pub credit_waits: u64,
    /// Messages that were sent on the control link, which no channel counts.
    pub eager_messages_sent: u64,
    /// Bytes of these messages.
    pub eager_bytes_sent: u64,
    /// Messages that were received on the control link.
    pub eager_messages_received: u64,
    /// Bytes of these messages.
    pub eager_bytes_received: u64,
    /// Writes of peers into memory that this session exports, with all their bytes in place.
    pub writes_served: u64,
    /// Reads of peers from such memory, with all their bytes sent.
    pub reads_served: u64,
    /// Bytes that peers have written, including writes that were stopped in the middle.
    pub bytes_written: u64,
    /// Bytes that peers have read, including reads that were stopped in the middle.
    pub bytes_read: u64,
    /// Requests of peers that were refused because they have no key to the memory.
    pub refused_key: u64,
    /// Requests that were refused because they reach past what is exported.
    pub refused_range: u64,
    /// Requests that were refused because the key does not allow them.
    pub refused_access: u64,
    /// Requests that were refused for other reasons.
    pub refused_otherwise: u64,
    /// Requests that were refused, or stopped in the middle, because the export was taken back.
    pub revoked: u64,
    /// Notifications that were sent.
    pub notifications_sent: u64,
    /// Notifications that have come.
    pub notifications_received: u64,
    /// Notifications that wait for the program now.
    pub notifications_waiting: u64,
    /// Ranges that were sent to peers in lists of operations, each list once.
    pub ranges_told: u64,
    /// Notifications that waited for room at a peer when it ended. They are lost.
    pub notifications_unsent: u64,
    /// Bytes of reads and writes of a peer's memory, requested by either end, that were sent on the
    /// control link, which no channel counts.
    pub link_bytes_sent: u64,
    /// Bytes of such reads and writes that were received there.
    pub link_bytes_received: u64,
    /// Bytes that this session keeps for peers now, or has promised to keep, beside 144 KiB for
    /// each: at most `kept_for_peers_bytes` of the session's options.
    pub kept_for_peers_bytes: u64,
}

const _: () = assert!(size_of::<tcpx_session_stats>() == 344);

// SAFETY: forty-three words, no padding.
unsafe impl Extensible for tcpx_session_stats {
    const NAME: &'static str = "tcpx_session_stats";
    const FIRST_BYTES: usize = 176;
}

impl tcpx_session_stats {
    /// Returns sums over the counters of these sessions.
    fn of<'a>(reports: impl IntoIterator<Item = &'a SessionReport>) -> Self {
        let mut stats = Self { size: size_of::<Self>(), ..Self::default() };
        for report in reports {
            stats.add_session(report);
            stats.add_lane(&report.total.send);
            stats.add_lane(&report.total.recv);
            stats.add_one_sided(&report.total.one_sided);
        }
        stats
    }

    fn add_session(&mut self, report: &SessionReport) {
        let total = &report.total;
        self.peers += report.peers.len() as u64;
        self.channels += report.peers.iter().map(|peer| peer.channels.len() as u64).sum::<u64>();
        self.chunks_sent += total.send.chunks;
        self.bytes_sent += total.send.bytes;
        self.chunks_received += total.recv.chunks;
        self.bytes_received += total.recv.bytes;
        self.unpack_batches += report.unpack_batches;
        self.unpack_ns += report.unpack_ns;
        self.messages_sent += total.messages_sent;
        self.messages_received += total.messages_received;
        self.errors += total.errors;
        self.peers_failed += report.peers_failed;
        self.alarms += report.alarms.iter().map(|alarm| alarm.count).sum::<u64>();
        self.peers_parked += report.peers_parked as u64;
        self.staging_bytes += report.staging_memory.used_bytes;
        self.kept_for_peers_bytes += report.kept_for_peers_bytes;
        self.plugin_calls_hung += report.plugin_calls_hung as u64;
        self.eager_messages_sent += total.eager_sent.messages;
        self.eager_bytes_sent += total.eager_sent.bytes;
        self.eager_messages_received += total.eager_received.messages;
        self.eager_bytes_received += total.eager_received.bytes;
        self.notifications_waiting += report.notifications_waiting as u64;
    }

    fn add_lane(&mut self, lane: &ChannelStats) {
        self.fragments += lane.fragments;
        self.fragments_merged += lane.fragments_merged;
        self.window_full += lane.window_full;
        self.plugin_busy += lane.plugin_busy;
        self.credit_waits += lane.credit_waits;
    }

    fn add_one_sided(&mut self, total: &OneSidedStats) {
        self.writes_served += total.writes_served;
        self.reads_served += total.reads_served;
        self.bytes_written += total.bytes_written;
        self.bytes_read += total.bytes_read;
        self.refused_key += total.refused_key;
        self.refused_range += total.refused_range;
        self.refused_access += total.refused_access;
        self.refused_otherwise += total.refused_otherwise;
        self.revoked += total.revoked;
        self.notifications_sent += total.notifications_sent;
        self.notifications_received += total.notifications_received;
        self.ranges_told += total.ranges_told;
        self.notifications_unsent += total.notifications_unsent;
        self.link_bytes_sent += total.link_bytes_sent;
        self.link_bytes_received += total.link_bytes_received;
    }
}

/// Writes sums over the session's whole life, of all devices. Each two devices that are connected
/// count as a peer.
///
/// Set `out_stats->size` to sizeof(tcpx_session_stats) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block.
///
/// # Safety
/// `out_stats` is NULL or points to a size that says how many bytes from it on may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_get_stats(
    session: tcpx_session,
    out_stats: *mut tcpx_session_stats,
) -> tcpx_status {
    boundary::call(|| {
        let devices = session.get()?.stats_by_device();
        let stats = tcpx_session_stats::of(devices.iter().map(|(_, report)| report));
        // SAFETY: passed on from the caller.
        unsafe { extensible::fill(out_stats, stats) }
    })
}

/// Writes all counters of the session, as a JSON object with a terminating NUL.
///
/// The object has the transport ("software" or "hardware"), the plugin, and the unpack backend and
/// why it was chosen. It has the trouble that was noticed, by the id of its diagnosis. It has each
/// peer with its state, and each channel's counters. With `group` 1 it has `sessions`, an array of
/// such objects, one for each device that is used: `device` is "host", or "gpu0" and so on.
///
/// `out_size` gets the bytes of the text, including the NUL; a NULL `buffer` asks for the number
/// alone. Numbers grow between two calls: leave some room, or ask again after
/// `TCPX_ERR_BUFFER_TOO_SMALL`.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`,
/// with the needed size in `out_size`. Any thread; does not block.
///
/// # Safety
/// `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_stats_json(
    session: tcpx_session,
    buffer: *mut c_char,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        let session = session.get()?;
        let json = match session.options().all_devices {
            false => serde_json::to_string(&session.stats()),
            true => {
                let devices = session.stats_by_device().into_iter();
                let devices: Vec<_> = devices.map(|(_, report)| report).collect();
                serde_json::to_string(&BTreeMap::from([("sessions", devices)]))
            }
        };
        let json = json.map_err(|error| Failure::new(TCPX_ERR_INTERNAL, error.to_string()))?;
        out.write_text(&json)
    })
}

#[cfg(test)]
mod tests {
    use tcpx_core::{AlarmReport, ChannelReport, PeerReport};

    use super::*;

    #[test]
    fn sums_cover_the_whole_life_and_peer_counts_the_present() {
        let lane = |chunks| {
            let mut lane = ChannelStats::default();
            (lane.chunks, lane.bytes) = (chunks, 10 * chunks);
            (lane.fragments, lane.fragments_merged) = (100 * chunks, chunks);
            (lane.window_full, lane.plugin_busy) = (2 * chunks, 3 * chunks);
            lane.credit_waits = 4 * chunks;
            lane
        };
        let alarm = |count| {
            let mut alarm = AlarmReport::default();
            alarm.count = count;
            alarm
        };
        let mut peer = PeerReport::default();
        peer.channels = vec![ChannelReport::default(); 3];
        let mut report = SessionReport::default();
        report.peers = vec![peer; 2];
        let total = &mut report.total;
        (total.messages_sent, total.messages_received, total.errors) = (14, 16, 18);
        (total.send, total.recv) = (lane(6), lane(12));
        (total.eager_sent.messages, total.eager_sent.bytes) = (20, 21);
        (total.eager_received.messages, total.eager_received.bytes) = (22, 23);
        let one_sided = &mut total.one_sided;
        (one_sided.writes_served, one_sided.reads_served) = (30, 31);
        (one_sided.bytes_written, one_sided.bytes_read) = (32, 33);
        (one_sided.refused_key, one_sided.refused_range) = (34, 35);
        (one_sided.refused_access, one_sided.refused_otherwise) = (36, 37);
        (one_sided.revoked, one_sided.ranges_told) = (38, 39);
        (one_sided.notifications_sent, one_sided.notifications_received) = (40, 41);
        one_sided.notifications_unsent = 43;
        (one_sided.link_bytes_sent, one_sided.link_bytes_received) = (44, 45);
        report.notifications_waiting = 42;
        (report.unpack_batches, report.unpack_ns) = (5, 6);
        (report.peers_failed, report.peers_parked, report.plugin_calls_hung) = (1, 4, 2);
        (report.staging_memory.used_bytes, report.kept_for_peers_bytes) = (4096, 46);
        report.alarms = [2, 3].map(alarm).to_vec();
        let stats = tcpx_session_stats::of([&report]);
        assert_eq!((stats.peers, stats.channels, stats.unpack_batches), (2, 6, 5));
        assert_eq!((stats.chunks_sent, stats.bytes_sent), (6, 60));
        assert_eq!((stats.chunks_received, stats.bytes_received), (12, 120));
        assert_eq!((stats.fragments, stats.fragments_merged), (1800, 18));
        assert_eq!((stats.messages_sent, stats.messages_received, stats.errors), (14, 16, 18));
        assert_eq!((stats.unpack_ns, stats.peers_failed, stats.alarms), (6, 1, 5));
        assert_eq!((stats.unpack_ns, stats.peers_failed, stats.peers_parked), (6, 1, 4));
        assert_eq!((stats.window_full, stats.plugin_busy, stats.credit_waits), (36, 54, 72));
        assert_eq!((stats.staging_bytes, stats.plugin_calls_hung), (4096, 2));
        assert_eq!(stats.kept_for_peers_bytes, 46);
        assert_eq!((stats.eager_messages_sent, stats.eager_bytes_sent), (20, 21));
        assert_eq!((stats.eager_messages_received, stats.eager_bytes_received), (22, 23));
        assert_eq!((stats.writes_served, stats.reads_served), (30, 31));
        assert_eq!((stats.bytes_written, stats.bytes_read), (32, 33));
        assert_eq!((stats.refused_key, stats.refused_range), (34, 35));
        assert_eq!((stats.refused_access, stats.refused_otherwise), (36, 37));
        assert_eq!((stats.revoked, stats.ranges_told), (38, 39));
        assert_eq!((stats.notifications_sent, stats.notifications_received), (40, 41));
        assert_eq!((stats.notifications_waiting, stats.notifications_unsent), (42, 43));
        assert_eq!((stats.link_bytes_sent, stats.link_bytes_received), (44, 45));
        let of_devices = tcpx_session_stats::of([&report, &report, &SessionReport::default()]);
        assert_eq!((of_devices.peers, of_devices.bytes_sent, of_devices.fragments), (4, 120, 3600));
        assert_eq!((of_devices.reads_served, of_devices.unpack_ns), (62, 12));
    }
}
