//! What every peer of a session shares: settings, plugin, identity.

use std::cell::Cell;
use std::sync::Arc;

use tcpx_diagnosis::pci::PciPath;
use tcpx_sys::UNPACK_VERSION;
use tcpx_unpack::Backend;

use crate::conn_info::Secret;
use crate::device_memory::DeviceMemory;
use crate::error::{Error, Result};
use crate::gathering::{Copier, RunLimits};
use crate::link::frame::PROTOCOL_VERSION;
use crate::link::hello::Hello;
use crate::memory::MemoryType;
use crate::plugin::Plugin;
use crate::settings::SessionOptions;

/// Slots of a staging buffer where the CPU does everything.
const CPU_SLOTS: usize = 2;

#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) options: SessionOptions,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) memory: DeviceMemory,
    /// Place of the session's GPU on PCI.
    pub(crate) gpu_path: Option<PciPath>,
    pub(crate) session: [u8; 16],
    pub(crate) secret: Secret,
    /// Whether scattered small sends are gathered.
    gathers: Cell<bool>,
    /// What gathers device memory. A copy by the driver costs as much as a request does: nothing is gathered with those.
    device_copier: Option<Copier>,
}

impl Env {
    pub(crate) fn new(
        options: SessionOptions,
        plugin: Arc<Plugin>,
        memory: DeviceMemory,
        unpack: Backend,
    ) -> Result<Self> {
        let device_copier = match (&memory, unpack) {
            (DeviceMemory::Emulated, _) => Some(Copier::Cpu),
            (DeviceMemory::Cuda(_), Backend::Kernel) => Some(Copier::Gpu),
            (DeviceMemory::Cuda(_), Backend::Host | Backend::D2d) => None,
        };
        Ok(Self {
            device_copier,
            gpu_path: memory.pci_path(),
            gathers: Cell::new(options.gather),
            options,
            plugin,
            memory,
            session: random()?,
            secret: Secret(random()?),
        })
    }

    /// What bounds runs of messages whose chunks have this size.
    pub(crate) fn run_limits(&self, chunk_bytes: u32) -> RunLimits {
        match self.gathers.get() {
            true => RunLimits::gathering(chunk_bytes, self.device_copier),
            false => RunLimits::in_place(chunk_bytes),
        }
    }

    /// Gathered chunks that a lane may have under way: as many as others, so that nothing waits for a GPU's copies or a
    /// NIC. Where the CPU both copies and sends, few: it then finds in its cache what it has copied.
    pub(crate) fn staging_slots(&self, memory: MemoryType) -> usize {
        let is_copied_by_gpu =
            memory == MemoryType::Device && self.device_copier == Some(Copier::Gpu);
        match is_copied_by_gpu || self.plugin.is_hardware() {
            true => self.options.send_window,
            false => self.options.send_window.min(CPU_SLOTS),
        }
    }

    /// There is no memory to gather in: from now on every stretch is sent from where it lies.
    pub(crate) fn stop_gathering(&self, reason: &Error) {
        if self.gathers.replace(false) {
            tracing::warn!(%reason, "no staging buffer for scattered small sends: from now on each is sent by itself");
        }
    }

    /// What this end says of itself on a new link.
    pub(crate) fn hello(&self, nonce: [u8; 32]) -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            session: self.session,
            name: self.options.name.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            plugin: self.plugin.name().to_owned(),
            unpack_version: UNPACK_VERSION,
            chunk_bytes: self.options.chunk_bytes,
            channels: self.options.channels,
            gpu: self.options.gpu,
            progress_thread: self.options.progress_thread,
            nonce,
        }
    }
}

/// Unpredictable bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::Io {
        what: "reading random bytes".into(),
        error: error.to_string(),
    })?;
    Ok(bytes)
}
