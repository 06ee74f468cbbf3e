//! What every peer of a session shares: settings, plugin, identity.

use std::sync::Arc;

use tcpx_doctor::topology::PciPath;
use tcpx_sys::UNPACK_VERSION;

use crate::conn_info::Secret;
use crate::device_memory::DeviceMemory;
use crate::error::{Error, Result};
use crate::link::frame::PROTOCOL_VERSION;
use crate::link::hello::Hello;
use crate::plugin::Plugin;
use crate::settings::SessionOptions;

#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) options: SessionOptions,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) memory: DeviceMemory,
    /// Place of the session's GPU on PCI.
    pub(crate) gpu_path: Option<PciPath>,
    pub(crate) session: [u8; 16],
    pub(crate) secret: Secret,
}

impl Env {
    pub(crate) fn new(
        options: SessionOptions,
        plugin: Arc<Plugin>,
        memory: DeviceMemory,
    ) -> Result<Self> {
        Ok(Self {
            gpu_path: memory.pci_path(),
            options,
            plugin,
            memory,
            session: random()?,
            secret: Secret(random()?),
        })
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
