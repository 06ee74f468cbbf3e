//! Statistics of a session: counters cheap enough to be always on, and their interpretation. This
//! file has the counters of one lane. The protocol (`tcpx_protocol::stats`) counts messages,
//! requests and notifications.
//!
//! - [`metrics`]: reports as text for Prometheus, pure.
//! - [`peer_transport`]: description of what carries the bytes of a peer.
//! - [`report`]: reports of a session, its peers and their sums, as programs read them.
//! - [`stages`]: breakdown of the session's time by stage.
//! - [`tcp`]: figures of TCP connections.
//! - [`watch`]: checks that find trouble in the counters, pure.
//! - [`alarm`]: kinds of trouble, each with its diagnosis, counted and logged once.

pub(crate) mod alarm;
pub(crate) mod metrics;
pub(crate) mod peer_transport;
pub(crate) mod report;
pub(crate) mod stages;
pub(crate) mod tcp;
pub(crate) mod watch;

use serde::Serialize;

/// Counters of one lane of one channel, since the lane was opened. Reports also hold sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChannelStats {
    /// Number of chunks sent, or received and unpacked.
    pub chunks: u64,
    /// Number of bytes of those chunks.
    pub bytes: u64,
    /// Number of fragments that receives arrived in.
    pub fragments: u64,
    /// Number of fragments that were merged into a neighbour before unpacking.
    pub fragments_merged: u64,
    /// Stalls: number of rounds in which a chunk waited because the window was full, or the staging
    /// buffer for gathering.
    pub window_full: u64,
    /// Stalls: number of rounds in which a chunk waited because the peer's bounce buffer had no
    /// room for it.
    pub credit_waits: u64,
    /// Stalls: number of times that the plugin refused a request for now.
    pub plugin_busy: u64,
    /// Largest number of requests that were ever in flight.
    pub window_peak: usize,
    /// Number of requests in flight, summed over all posts. Divided by `posts` it is the mean
    /// occupancy.
    pub window_sum: u64,
    /// Number of requests posted to the plugin.
    pub posts: u64,
    /// Number of chunks of scattered small messages that were gathered to be sent.
    pub gathered: u64,
    /// Number of bytes of those chunks.
    pub gathered_bytes: u64,
}

impl ChannelStats {
    /// Counts a chunk that was sent, or received and unpacked.
    pub(crate) fn chunk(&mut self, bytes: u32) {
        self.chunks += 1;
        self.bytes += u64::from(bytes);
    }

    /// Counts a posted request. `in_flight` requests are in flight now.
    pub(crate) fn posted(&mut self, in_flight: usize) {
        self.posts += 1;
        self.window_sum += in_flight as u64;
        self.window_peak = self.window_peak.max(in_flight);
    }

    /// Adds the counters of another lane. The peak is the higher one of the two.
    pub(crate) fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.fragments += other.fragments;
        self.fragments_merged += other.fragments_merged;
        self.window_full += other.window_full;
        self.credit_waits += other.credit_waits;
        self.plugin_busy += other.plugin_busy;
        self.window_peak = self.window_peak.max(other.window_peak);
        self.window_sum += other.window_sum;
        self.posts += other.posts;
        self.gathered += other.gathered;
        self.gathered_bytes += other.gathered_bytes;
    }
}
