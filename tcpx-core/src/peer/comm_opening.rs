//! Steps of a worker that connects the comms of a peer. Every step makes calls that may block.
//!
//! Also the room that one peer's channels need in the bounce buffer, where it is limited.

use std::sync::Arc;
use std::time::Instant;

use tcpx_protocol::frames::frame::ChunkCounts;
use tcpx_protocol::frames::hello::Agreement;
use tcpx_protocol::peer::credit::BouncePool;
use tcpx_sys::{MAX_UNPACK_ENTRIES, NetHandle, UNPACK_PAGE_BYTES};

use super::dial_policy::{AddressTrust, DialResult};
use super::session_context::SessionContext;
use crate::error::{BounceBufferProblem, Error, MemoryUnavailable, PluginFailure, Result};
use crate::plugin::comm::{ListenComm, PendingConnect, RecvComm, SendComm};
use crate::plugin::comm_label::CommLabel;
use crate::plugin::comm_secrets::CommSecrets;
use crate::plugin::{Plugin, process};

/// Comms of a peer by channel, when all of them are connected.
#[derive(Debug, Default)]
pub(crate) struct Comms {
    pub(crate) sends: Vec<SendComm>,
    pub(crate) receives: Vec<(CommLabel, RecvComm)>,
}

/// Comms of one peer while they are being connected.
#[derive(Debug)]
pub(super) struct CommOpening {
    plugin: Arc<Plugin>,
    labels: Vec<CommLabel>,
    /// Whether the handles of the listen comms were sent to the peer.
    handles_sent: bool,
    /// Listen comms that have not accepted the peer.
    listens: Vec<Option<ListenComm>>,
    accepted: Vec<Option<RecvComm>>,
    /// Connects without a final answer; empty until the peer's handles came.
    connects: Vec<Option<PendingConnect>>,
    connected: Vec<Option<SendComm>>,
    /// Result of the dials, and the time of its report.
    dial: DialResult,
    /// Room that each receive comm needs in the bounce buffer, if it is limited.
    credit: Option<CreditTerms>,
    /// Secrets with which the comms are encrypted; `None`: they are not.
    secrets: Option<CommSecrets>,
}

impl CommOpening {
    pub(super) fn new(
        plugin: &Arc<Plugin>,
        labels: Vec<CommLabel>,
        credit: Option<CreditTerms>,
        secrets: Option<CommSecrets>,
    ) -> Self {
        let channels = labels.len();
        Self {
            plugin: Arc::clone(plugin),
            labels,
            handles_sent: false,
            listens: Vec::new(),
            accepted: (0..channels).map(|_| None).collect(),
            connects: Vec::new(),
            connected: (0..channels).map(|_| None).collect(),
            dial: DialResult::default(),
            credit,
            secrets,
        }
    }

    /// Returns the handles to send to the peer, once, when every channel listens.
    pub(super) fn new_handles(&mut self) -> Option<Vec<NetHandle>> {
        if self.listens.is_empty() || std::mem::replace(&mut self.handles_sent, true) {
            return None;
        }
        Some(self.listens.iter().flatten().map(ListenComm::handle).collect())
    }

    /// Connects to the peer's handles, one for each channel. `trust` is the weakest of their
    /// addresses.
    pub(super) fn connect(&mut self, handles: &[NetHandle], trust: AddressTrust) {
        if trust == AddressTrust::Claimed {
            self.dial = DialResult::claimed(Instant::now());
        }
        let pending = |(label, handle): (&CommLabel, &NetHandle)| {
            let secret = self.secrets.as_ref().map(|all| all.of_connecting(label.channel));
            Some(PendingConnect::new(&self.plugin, label.clone(), *handle, secret))
        };
        self.connects = self.labels.iter().zip(handles).map(pending).collect();
    }

    /// Listens on every channel, then polls every comm that is not connected yet. Returns whether
    /// there was progress.
    ///
    /// # Errors
    /// Where the hardware plugin fails, with what is wrong with RxDM: its code does not say so.
    pub(super) fn poll(&mut self) -> Result<bool> {
        self.poll_comms().map_err(|error| match error {
            Error::Plugin(failure) if failure.cause.is_none() && self.plugin.is_hardware() => {
                let cause = process::diagnose_rxdm().map(Box::new);
                Error::Plugin(PluginFailure { cause, ..failure })
            }
            other => other,
        })
    }

    fn poll_comms(&mut self) -> Result<bool> {
        if self.listens.is_empty() {
            let open = |label: &CommLabel| {
                let mut listen = ListenComm::open(&self.plugin, label.clone())?;
                if let Some(secrets) = &self.secrets {
                    listen.encrypt(&secrets.of_listening(label.channel))?;
                }
                Ok(Some(listen))
            };
            self.listens = self.labels.iter().map(open).collect::<Result<_>>()?;
            return Ok(true);
        }
        let mut moved = false;
        let mut admitted = self.accepted.iter().flatten().count();
        for (pending, accepted) in self.listens.iter_mut().zip(&mut self.accepted) {
            let Some(listen) = pending else { continue };
            if let Some(mut comm) = listen.poll_accept()? {
                if let Some(terms) = self.credit {
                    terms.admit(&mut comm, admitted)?;
                    admitted += 1;
                }
                *accepted = Some(comm);
                // One peer per listen comm: its work is done.
                *pending = None;
                moved = true;
            }
        }
        for (pending, connected) in self.connects.iter_mut().zip(&mut self.connected) {
            let Some(connect) = pending else { continue };
            match connect.poll() {
                Ok(None) => continue,
                Ok(comm) => *connected = comm,
                Err(error) => self.dial.failed(error)?,
            }
            *pending = None;
            moved = true;
        }
        if let Some(CommLabel { peer, .. }) = self.labels.first() {
            let is_connected = self.connected.iter().all(Option::is_some);
            self.dial.check(peer, is_connected, Instant::now())?;
        }
        Ok(moved)
    }

    /// Returns the first channel on which the peer is not accepted.
    pub(super) fn first_accepting(&self) -> Option<&CommLabel> {
        self.labels.get(self.accepted.iter().position(Option::is_none)?)
    }

    /// Returns whether every receive comm is accepted.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.iter().all(Option::is_some)
    }

    /// Returns how many chunks there is room for on each channel; empty: for any number.
    pub(super) fn credit(&mut self) -> ChunkCounts {
        let accepted = self.accepted.iter_mut().flatten();
        accepted.filter_map(|comm| Some(comm.credit()?.limit())).collect()
    }

    /// Returns whether every send comm is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.connected.iter().all(Option::is_some)
    }

    /// Returns the comms, when all are there.
    pub(super) fn finish(self) -> Comms {
        let sends = self.connected.into_iter().flatten().collect();
        let receives = self.labels.into_iter().zip(self.accepted);
        let receives = receives.filter_map(|(label, comm)| Some((label, comm?))).collect();
        Comms { sends, receives }
    }
}

/// Bytes of a page.
const PAGE_BYTES: u64 = UNPACK_PAGE_BYTES as u64;
/// One packet in this many may be shorter than it could be.
const SHORT_PACKETS: u32 = 16;

/// Pages that a chunk takes at most when it comes in packets of this many bytes of payload. A
/// packet begins on a page of its own; the first and the last may hold bytes of other chunks.
fn chunk_pages(chunk_bytes: u32, packet_bytes: u32) -> u64 {
    let packets = chunk_bytes.div_ceil(packet_bytes.max(1));
    let packets = u64::from(packets) + u64::from(packets / SHORT_PACKETS) + 2;
    let pages = packets * u64::from(packet_bytes).div_ceil(PAGE_BYTES);
    // A chunk with more fragments than this ends the receiving process.
    pages.min(MAX_UNPACK_ENTRIES as u64)
}

/// Room that one peer's channels need in the bounce buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreditTerms {
    channels: u16,
    chunk_bytes: u32,
    chunk_pages: u64,
}

impl CreditTerms {
    /// Makes the terms. `None`: what the peer sends need not be bounded.
    pub(super) fn new(agreement: Agreement, session: &SessionContext) -> Option<Self> {
        let Agreement { channels, chunk_bytes, .. } = agreement;
        let chunk_pages = chunk_pages(chunk_bytes, session.packet_bytes);
        session.gives_credit().then_some(Self { channels, chunk_bytes, chunk_pages })
    }

    /// Takes room for a comm's first chunk. `admitted` channels of the peer have theirs.
    ///
    /// # Errors
    /// [`BounceBufferProblem::TooSmall`].
    pub(super) fn admit(self, comm: &mut RecvComm, admitted: usize) -> Result<()> {
        let pool_bytes = comm.pool_bytes()?;
        let pool = BouncePool::of(comm.queue().bounce(), pool_bytes / PAGE_BYTES);
        if let Some(credit) = pool.admit(self.chunk_pages) {
            comm.set_credit(credit);
            return Ok(());
        }
        let channel_bytes = self.chunk_pages * PAGE_BYTES;
        let kept = pool.kept();
        let problem = BounceBufferProblem::TooSmall {
            pool_bytes,
            channels: self.channels,
            chunk_bytes: self.chunk_bytes,
            needed_bytes: u64::from(self.channels) * channel_bytes,
            other_channels: kept.channels.saturating_sub(admitted),
            other_bytes: (kept.pages * PAGE_BYTES).saturating_sub(admitted as u64 * channel_bytes),
        };
        Err(Error::MemoryUnavailable(MemoryUnavailable::BounceBuffer(problem)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_chunk_takes_its_bytes_in_pages_at_least(
            bytes in 1u32..=4 << 20,
            packet in 1u32..20_000,
        ) {
            let pages = chunk_pages(bytes, packet);
            let least = u64::from(bytes).div_ceil(PAGE_BYTES);
            prop_assert!((least..=2048).contains(&pages), "{pages}");
            let packets = u64::from(bytes.div_ceil(packet));
            prop_assert!(pages >= packets.min(2048));
        }
    }

    /// What was measured with packets of 8 KiB and pages of 4 KiB: 129 pages for 512 KiB, 1026 for
    /// 4 MiB.
    #[test]
    fn measured_chunks_take_no_more_than_they_are_given() {
        assert_eq!((chunk_pages(512 << 10, 8192), chunk_pages(4 << 20, 8192)), (140, 1092));
        assert_eq!((chunk_pages(512 << 10, 1448), chunk_pages(4 << 20, 1448)), (387, 2048));
    }

    /// Buffers that were seen to fill up with parts of chunks, and buffers that were not.
    #[test]
    fn a_pool_takes_as_many_channels_as_it_has_chunks() {
        let fits = |pool_mib: u64, channels: usize, chunk_kib: u32| {
            let pool = BouncePool::new((pool_mib << 20) / PAGE_BYTES);
            let pages = chunk_pages(chunk_kib << 10, 1448);
            let credits: Vec<_> = (0..channels).map_while(|_| pool.admit(pages)).collect();
            credits.len() == channels
        };
        for (pool, channels, chunk) in [(64, 16, 4096), (2, 4, 512), (4, 8, 2048), (1, 4, 4096)] {
            assert!(!fits(pool, channels, chunk), "{channels} of {chunk} KiB in {pool} MiB");
        }
        for (pool, channels) in [(8, 2), (16, 8), (32, 4), (64, 32)] {
            assert!(fits(pool, channels, 512), "{channels} in {pool} MiB");
        }
    }
}
