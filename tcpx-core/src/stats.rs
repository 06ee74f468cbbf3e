//! What a session knows of itself: counters cheap enough to be always on, and what they mean. What
//! one lane counts is here; messages, requests and notifications are counted by the protocol
//! (`tcpx_protocol::stats`).
//!
//! - [`metrics`]: reports as text for Prometheus, pure.
//! - [`report`]: a session, its peers and their sums, as programs read them.
//! - [`stages`]: where the time goes.
//! - [`watch`]: the judgements that find trouble in the counters, pure.
//! - [`alarm`]: kinds of trouble, each with its diagnosis, counted and logged once.

pub(crate) mod alarm;
pub(crate) mod metrics;
pub(crate) mod report;
pub(crate) mod stages;
pub(crate) mod watch;

use serde::Serialize;

/// Counters of one lane of one channel, since the lane was opened. Reports also hold sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChannelStats {
    /// Chunks sent, or received and unpacked.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Fragments that receives arrived in.
    pub fragments: u64,
    /// Fragments that were merged into a neighbour before unpacking.
    pub fragments_merged: u64,
    /// Stalls: rounds in which a chunk waited because the window was full, or the staging buffer
    /// that it is gathered in.
    pub window_full: u64,
    /// Stalls: rounds in which a chunk waited because the peer's bounce buffer had no room for it.
    pub credit_waits: u64,
    /// Stalls: times the plugin asked to be asked again later.
    pub plugin_busy: u64,
    /// Most requests that were ever in flight.
    pub window_peak: usize,
    /// Requests in flight, summed over all posts. Divided by `posts` it is the mean occupancy.
    pub window_sum: u64,
    /// Requests posted to the plugin.
    pub posts: u64,
    /// Chunks of scattered small messages that were copied together to be sent.
    pub gathered: u64,
    /// Their bytes.
    pub gathered_bytes: u64,
}

impl ChannelStats {
    /// A chunk was sent, or received and unpacked.
    pub(crate) fn chunk(&mut self, bytes: u32) {
        self.chunks += 1;
        self.bytes += u64::from(bytes);
    }

    /// A request was posted; so many are in flight now.
    pub(crate) fn posted(&mut self, in_flight: usize) {
        self.posts += 1;
        self.window_sum += in_flight as u64;
        self.window_peak = self.window_peak.max(in_flight);
    }

    /// Adds what another lane counted. The peak is that of the two that is higher.
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
