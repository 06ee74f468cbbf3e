//! Numbers that a session keeps about itself, cheap enough to be always on.

use serde::Serialize;

/// One lane of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelStats {
    /// Chunks sent, or received and unpacked.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Fragments that receives arrived in.
    pub fragments: u64,
    /// Fragments that were merged into a neighbour before unpacking.
    pub fragments_merged: u64,
    /// Times a chunk waited because the window was full.
    pub window_full: u64,
    /// Times the plugin asked to be asked again later.
    pub plugin_busy: u64,
    /// Most requests that were ever in flight.
    pub window_peak: usize,
}

impl ChannelStats {
    pub(crate) fn chunk(&mut self, bytes: u32) {
        self.chunks += 1;
        self.bytes += u64::from(bytes);
    }

    pub(crate) fn occupancy(&mut self, requests: usize) {
        self.window_peak = self.window_peak.max(requests);
    }
}

/// Both lanes of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
pub struct PeerReport {
    /// Its name.
    pub name: String,
    /// Its state in words.
    pub state: String,
    /// Bytes of a chunk that both ends agreed on.
    pub chunk_bytes: u32,
    /// Channels, in order.
    pub channels: Vec<ChannelReport>,
}

/// A session as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// `"software"` or `"hardware"`.
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
    /// Batches of chunks that were unpacked.
    pub unpack_batches: u64,
    /// Peers by name.
    pub peers: Vec<PeerReport>,
}
