//! Transport of a session over its plugin: what moves the payload, and how it is named.

#[cfg(feature = "soft")]
use tcpx_diagnosis::table::plugin::OTHER_TRANSPORT;

use super::Plugin;
use super::carrier::Carrier;
#[cfg(feature = "soft")]
use super::carrier::CarrierMatch;
use crate::error::Result;
use crate::memory::device_memory::DeviceMemory;
use crate::settings::SessionOptions;
use crate::stats::peer_transport::{ZeroCopy, ZeroCopySends};

impl Plugin {
    /// Returns whether fragments are the payload of packets, and not pages of the plugin's own.
    pub(crate) fn takes_packets(&self, memory: &DeviceMemory) -> bool {
        self.is_hardware() || self.carrier == Carrier::IoUring || self.uses_nic_memory(memory)
    }

    /// Checks that a session with this device memory has the transport that it asks for. A process
    /// has one software plugin, whose transport is that of the first session. With `auto` a session
    /// takes the transport of the plugin, and logs it.
    ///
    /// # Errors
    /// Fails if the plugin has another transport.
    #[cfg(feature = "soft")]
    pub(crate) fn check_carrier(
        &self,
        options: &SessionOptions,
        memory: &DeviceMemory,
    ) -> Result<()> {
        if !options.plugin.resolve().is_built_in() {
            return Ok(());
        }
        let (wanted, opened) = (super::soft::wanted_here(&options.plugin)?, self.carrier);
        let has_gpu = matches!(memory, DeviceMemory::Cuda(_));
        match wanted.match_opened(opened, has_gpu, self.uses_nic_memory(memory)) {
            CarrierMatch::Same => Ok(()),
            CarrierMatch::Other => {
                tracing::warn!(
                    "a session with plugin = {} would have {}, and takes {}, which this process's \
                     first session has chosen [{}]",
                    options.plugin,
                    wanted.description(),
                    opened.description(),
                    OTHER_TRANSPORT.code
                );
                Ok(())
            }
            CarrierMatch::Refused => {
                Err(super::soft::other_transport(&options.plugin, wanted, opened))
            }
        }
    }

    /// Always succeeds: no plugin but the software plugin has a choice of transports.
    #[cfg(not(feature = "soft"))]
    pub(crate) fn check_carrier(&self, _: &SessionOptions, _: &DeviceMemory) -> Result<()> {
        Ok(())
    }

    /// Logs how memory of the session's GPU travels, if the choice left that open.
    pub(crate) fn log_gpu_reach(&self, memory: &DeviceMemory) {
        #[cfg(feature = "soft")]
        if let (Carrier::DeviceMemoryOfGpus, DeviceMemory::Cuda(gpu)) = (self.carrier, memory) {
            super::soft::log_gpu_reach(gpu.ordinal());
        }
        #[cfg(not(feature = "soft"))]
        let _ = memory;
    }

    /// Returns whether payload of sessions with this device memory goes by the kernel's
    /// device-memory TCP.
    pub(super) fn uses_nic_memory(&self, memory: &DeviceMemory) -> bool {
        match (self.carrier, memory) {
            (Carrier::Sockets | Carrier::IoUring, _)
            | (Carrier::DeviceMemoryOfGpus, DeviceMemory::Emulated) => false,
            (Carrier::DeviceMemory, _) => true,
            (Carrier::DeviceMemoryOfGpus, DeviceMemory::Cuda(gpu)) => nics_reach(gpu.ordinal()),
        }
    }

    /// Returns the name of the transport in reports.
    pub(crate) fn transport_name(&self, memory: &DeviceMemory) -> &'static str {
        match self.carrier {
            _ if self.is_hardware() => "hardware",
            _ if self.uses_nic_memory(memory) => "devmem",
            Carrier::IoUring => "io_uring",
            _ => "software",
        }
    }

    /// Returns on which part of the way no processor of the host copies the bytes on channels.
    pub(crate) fn zero_copy(&self, memory: &DeviceMemory, is_encrypted: bool) -> ZeroCopy {
        if self.is_hardware() || self.uses_nic_memory(memory) {
            return ZeroCopy::BOTH;
        }
        let receives = self.carrier == Carrier::IoUring;
        let sends = if is_encrypted { ZeroCopySends::No } else { self.zero_copy_sends };
        ZeroCopy { sends, receives }
    }

    /// Returns whether registering memory of a GPU takes a dma-buf of the CUDA driver. Where the
    /// driver has none, the original closes file descriptor 0 of the process.
    pub(crate) fn takes_dma_bufs(&self, memory: &DeviceMemory) -> bool {
        self.takes_dma_bufs || self.uses_nic_memory(memory)
    }
}

/// Returns whether NICs reach the memory of this GPU, as the built-in plugin has found.
fn nics_reach(gpu: u32) -> bool {
    #[cfg(feature = "soft")]
    return super::soft::uses_device_memory(gpu);
    #[cfg(not(feature = "soft"))]
    {
        let _ = gpu;
        false
    }
}
