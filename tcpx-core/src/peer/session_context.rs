//! State that every peer of a session shares: settings, plugin, identity.

use std::sync::Arc;

use tcpx_protocol::frames::hello::Agreement;
use tcpx_protocol::peer::one_sided::local_lists::ListLimits;
use tcpx_protocol::peer::one_sided::{MAX_ACTIVE_REQUESTS, MOST_PLANNED, OneSidedTerms};
use tcpx_protocol::peer::schedule::tuning::{Copier, Tuning};
use tcpx_protocol::types::MemoryType;
use tcpx_protocol::types::peer_budget::PeerBudget;
use tcpx_sys::UNPACK_PAGE_BYTES;
use tcpx_unpack::Backend;

use crate::control::identity::{Identity, ProvenLink};
use crate::error::{Error, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::Plugin;
use crate::reactor::poller::Poller;
use crate::settings::{BounceCreditChoice, SessionOptions};
use crate::stats::peer_transport::{OneSidedPath, PeerTransport, TransportEnd};
use crate::transfer::window::STEP_BYTES;
use crate::types::SessionNumber;

/// Bytes of payload in a packet of the hardware's network, at least, unless a NIC of this end has
/// less: what an MTU of 1500 leaves. The other end's NICs may send smaller packets than ours.
const HARDWARE_PACKET_BYTES: u32 = 1448;

/// Chunks that are dealt to each channel at once where processors move the bytes: one on its way
/// out, one that is copied meanwhile, and two for the time until more are dealt.
const CHUNKS_AHEAD: usize = 4;

/// Slots of a lane's staging buffer where the CPU does everything.
const CPU_SLOTS: usize = 2;

/// Settings, plugin and identity that every peer of a session uses.
#[derive(Debug)]
pub(crate) struct SessionContext {
    /// Fewest bytes of payload in a packet. Each packet takes pages of its own.
    pub(crate) packet_bytes: u32,
    pub(crate) number: SessionNumber,
    pub(crate) options: SessionOptions,
    pub(crate) plugin: Arc<Plugin>,
    /// Poller that says when something happens on a descriptor.
    pub(crate) poller: Arc<Poller>,
    pub(crate) memory: DeviceMemory,
    pub(crate) identity: Identity,
    /// Budget for what the session holds for peers.
    pub(crate) kept: Arc<PeerBudget>,
    /// Whether short messages on the link are copied to and from device memory: the CPU does not
    /// reach it.
    pub(crate) copies_on_link: bool,
    /// Copier that gathers device memory. A copy by the driver costs as much as a request does:
    /// nothing is gathered with those.
    device_copier: Option<Copier>,
}

impl SessionContext {
    pub(crate) fn new(
        options: SessionOptions,
        plugin: Arc<Plugin>,
        nic_packet_bytes: Option<u32>,
        memory: DeviceMemory,
        unpack: Backend,
        identity: Identity,
    ) -> Result<Self> {
        let device_copier = match (&memory, unpack) {
            (DeviceMemory::Emulated, _) => Some(Copier::Cpu),
            (DeviceMemory::Cuda(_), Backend::Kernel) => Some(Copier::Gpu),
            (DeviceMemory::Cuda(_), Backend::Host | Backend::D2d) => None,
        };
        let packet_bytes = match plugin.takes_packets(&memory) {
            true => {
                nic_packet_bytes.map_or(HARDWARE_PACKET_BYTES, |own| own.min(HARDWARE_PACKET_BYTES))
            }
            // Its sockets are read page by page.
            false => UNPACK_PAGE_BYTES as u32,
        };
        let poller = Poller::new()
            .map_err(|error| Error::io("making the set of descriptors of a session", &error))?;
        Ok(Self {
            packet_bytes,
            poller: Arc::new(poller),
            number: SessionNumber::next(),
            copies_on_link: matches!(memory, DeviceMemory::Cuda(_)),
            device_copier,
            identity,
            kept: PeerBudget::new(options.kept_for_peers_bytes),
            options,
            plugin,
            memory,
        })
    }

    /// Returns what carries the bytes of a peer.
    pub(crate) fn transport_of(&self, proven: &ProvenLink) -> PeerTransport {
        let ProvenLink { link, agreement, peer_nics, .. } = proven;
        let Agreement { channels, chunk_bytes, is_encrypted, .. } = *agreement;
        let local = link.local_ip();
        let address = local.map(|ip| ip.to_canonical().to_string()).unwrap_or_default();
        PeerTransport {
            name: self.plugin.transport_name(&self.memory).to_owned(),
            local: TransportEnd { address, nics: self.identity.nics.links(local) },
            remote: TransportEnd { address: link.peer_address(), nics: peer_nics.clone() },
            channels,
            chunk_bytes,
            encrypted: is_encrypted,
            zero_copy: self.plugin.zero_copy(&self.memory, is_encrypted),
            one_sided: OneSidedPath::new(&agreement.eager),
        }
    }

    /// Returns the payload that one step of a lane moves. A NIC moves it by itself; elsewhere the
    /// thread that tests does.
    pub(crate) fn step_bytes(&self) -> u64 {
        if self.plugin.is_hardware() { u64::MAX } else { STEP_BYTES }
    }

    /// Returns the number of bytes that are unpacked by one submit. A GPU takes all there are, and
    /// copies while the thread goes on. Threads that copy get something to do each; should the
    /// system have none for them, the thread that submits copies as much.
    pub(crate) fn batch_bytes(&self, copy_threads: usize) -> u64 {
        match self.memory {
            DeviceMemory::Emulated => STEP_BYTES * copy_threads.max(1) as u64,
            DeviceMemory::Cuda(_) => u64::MAX,
        }
    }

    /// Returns whether peers may only send what the bounce buffer has room for.
    pub(crate) fn gives_credit(&self) -> bool {
        match self.options.bounce_credit {
            BounceCreditChoice::Auto => self.plugin.is_hardware(),
            BounceCreditChoice::On => true,
            BounceCreditChoice::Off => false,
        }
    }

    /// Returns the numbers by which this end sends. A NIC gets enough to keep every send window
    /// full. Where processors move the bytes, some channels are slower than others, so that little
    /// is dealt ahead.
    pub(crate) fn tuning(&self, agreement: &Agreement) -> Tuning {
        let Agreement { channels, chunk_bytes, .. } = *agreement;
        let ahead = if self.plugin.is_hardware() { usize::MAX } else { CHUNKS_AHEAD };
        let chunks_ahead = u64::from(channels) * self.options.send_window.min(ahead) as u64;
        let mut tuning = Tuning::new(chunk_bytes, chunks_ahead);
        if !self.plugin.is_hardware() {
            tuning = tuning.pipelined();
            if !matches!(self.memory, DeviceMemory::Emulated) {
                tuning = tuning.copied_by_gpu();
            }
        }
        if self.options.gather && self.options.staging_bytes > 0 {
            tuning = tuning.gathering(self.device_copier);
        }
        tuning
    }

    /// Returns the terms by which exported memory is read and written, with room for `note_bytes`
    /// bytes of notifications at each end.
    pub(crate) fn one_sided_terms(&self, note_bytes: u64) -> OneSidedTerms {
        OneSidedTerms {
            lists: ListLimits::AGREED,
            note_bytes,
            queued_note_bytes: self.options.notification_bytes.into(),
            asked: MAX_ACTIVE_REQUESTS,
            planned: MOST_PLANNED,
            receives_host: self.plugin.receives_host(),
            scatters_host: matches!(self.memory, DeviceMemory::Emulated)
                && !self.plugin.is_hardware(),
        }
    }

    /// Returns the most gathered chunks that a lane may have under way: as many as others, so that
    /// nothing waits for a GPU's copies or a NIC. Where the CPU both copies and sends, there are
    /// few: the CPU then finds in its cache what it has copied.
    pub(crate) fn staging_slots(&self, memory: MemoryType) -> usize {
        let is_copied_by_gpu =
            memory == MemoryType::Device && self.device_copier == Some(Copier::Gpu);
        match is_copied_by_gpu || self.plugin.is_hardware() {
            true => self.options.send_window,
            false => self.options.send_window.min(CPU_SLOTS),
        }
    }
}
