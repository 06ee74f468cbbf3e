//! Setting of one end of a conversation.

use super::driver::CHUNK_BYTES;
use crate::frames::eager_terms::EagerTerms;
use crate::peer::flow_control::FlowTerms;
use crate::peer::one_sided::local_lists::ListLimits;
use crate::peer::one_sided::{MAX_ACTIVE_REQUESTS, MOST_PLANNED, OneSidedTerms};
use crate::peer::schedule::tuning::{Copier, Tuning};
use crate::types::peer_budget::PeerBudget;

/// Messages of any size are scheduled at once, in chunks that are as long as they may be. A chunk
/// on the link is longer than what any test moves there.
pub(super) const DEAL_AT_ONCE: Tuning = Tuning {
    chunk_bytes: CHUNK_BYTES,
    shared_device_chunk: CHUNK_BYTES,
    shortest_chunk: CHUNK_BYTES,
    longest_chunk: CHUNK_BYTES,
    link_chunk_bytes: 60 << 10,
    host: None,
    device: None,
    short_bytes: u64::MAX,
    section_bytes: u64::MAX,
    ahead_bytes: u64::MAX,
    plan_bytes: 0,
};

/// Room for whatever is asked, told and notified.
pub(super) const AMPLE: OneSidedTerms = OneSidedTerms {
    lists: ListLimits::AGREED,
    note_bytes: 1 << 20,
    queued_note_bytes: 1 << 20,
    asked: MAX_ACTIVE_REQUESTS,
    planned: MOST_PLANNED,
    receives_host: true,
    scatters_host: true,
};

/// Room for whatever is announced.
pub(super) const KEEPS_ALL: FlowSetting =
    FlowSetting { bytes: 1 << 30, least: 256, usual: 4096, least_unexpected: 8 << 10 };

/// Limits on what an end keeps for the other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowSetting {
    /// Bytes of the session's budget, which the end has alone.
    pub(super) bytes: u64,
    /// Receives that may be announced in any case, and unasked.
    pub(super) least: u64,
    pub(super) usual: u64,
    /// Bytes that may go ahead in any case.
    pub(super) least_unexpected: u64,
}

impl FlowSetting {
    pub(super) fn terms(self) -> FlowTerms {
        let Self { bytes, least, usual, least_unexpected } = self;
        FlowTerms { budget: PeerBudget::new(bytes), least, usual, least_unexpected }
    }
}

/// Room that is left on a full link as soon as the other end has read everything.
pub(super) const LITTLE_ROOM: usize = 40;

/// Setting of one end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) channels: u16,
    /// Channels that get a staging buffer, a bit for each.
    pub(super) staging: u16,
    /// Whether it answers only in a later round which they are.
    pub(super) staging_is_late: bool,
    /// Copier that gathers; `None`: nothing is gathered.
    pub(super) copier: Option<Copier>,
    pub(super) tuning: Tuning,
    pub(super) has_progress_thread: bool,
    pub(super) is_named: bool,
    /// Operations that are withdrawn in one go.
    pub(super) slice: usize,
    /// Chunks that its bounce buffer has room for; `None`: it does not count.
    pub(super) bounce_pages: Option<u64>,
    /// Whether others have more of those than one each.
    pub(super) is_crowded: bool,
    /// Terms of small messages on the link, as this end sees them.
    pub(super) eager: EagerTerms,
    /// Whether the kernel takes hardly anything that is written to the link, and nothing before the
    /// other end has read the rest.
    pub(super) link_is_full: bool,
    /// Terms of reads and writes of the other end's memory.
    pub(super) one_sided: OneSidedTerms,
    pub(super) kept: FlowSetting,
    /// Whether channels are made when something needs them.
    pub(super) on_demand: bool,
    /// Whether chunks are kept until the other end has unpacked them.
    pub(super) keeps_chunks: bool,
    /// Whether it learns only later that a chunk is sent.
    pub(super) sends_end_late: bool,
}

impl Setting {
    /// Returns the numbers by which it sends.
    pub(super) fn tuning(&self) -> Tuning {
        match self.copier {
            None => self.tuning,
            some => self.tuning.gathering(some),
        }
    }

    pub(super) fn has_staging(&self, channel: u16) -> bool {
        self.staging >> channel & 1 == 1
    }
}
