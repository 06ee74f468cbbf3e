//! The devices of a session: an engine for each, behind a lock and with a progress thread of its
//! own, made when memory of the device is first registered or reached.
//!
//! All engines have one secret. Each call picks its engine by the id of memory, by a key, or takes
//! the host's. Two devices are connected by their first operation. So nothing new is said on the
//! wire, and the peer need not know of the parts of an operation. The engines share the queues of
//! completions and of events of peers, and so the descriptor. Notifications are taken from each
//! engine in turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tcpx_cuda::CudaError;
use tcpx_protocol::types::memory::Device;
use tcpx_sys::is_forked;

use super::shared::Shared;
use crate::control::inbound_handshake::InboundHandshake;
use crate::engine::meeting::device_context::{DeviceContext, HandOver};
use crate::engine::meeting::peer_names::PeerNames;
use crate::error::{Error, MemoryUnavailable, Result};
use crate::memory::device_memory::gpu_count;
use crate::settings::SessionOptions;

/// The devices of a session of all devices, but for the host.
#[derive(Debug)]
pub(super) struct OtherDevices {
    options: SessionOptions,
    context: DeviceContext,
    pub(super) names: Arc<PeerNames>,
    /// Held while a device is made: a GPU takes its time.
    making: Mutex<()>,
    made: Mutex<Made>,
    /// Whether there are any. Most sessions have none, and are asked often.
    has_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Made {
    devices: BTreeMap<Device, Arc<Shared>>,
    is_closed: bool,
}

impl OtherDevices {
    /// None yet. Returns them, and the context of the host, which hands over to them.
    pub(super) fn new(
        options: SessionOptions,
        mut context: DeviceContext,
    ) -> (Arc<Self>, DeviceContext) {
        let names: Arc<PeerNames> = Arc::default();
        context.names = Some(Arc::clone(&names));
        let devices = Arc::new(Self {
            options,
            context: context.clone(),
            names,
            making: Mutex::default(),
            made: Mutex::default(),
            has_any: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&devices);
        let hand_over: HandOver = Arc::new(move |device, handshake| match weak.upgrade() {
            Some(devices) => devices.take_in(device, handshake),
            None => handshake.refuse(Error::Closed.to_string()),
        });
        context.hand_over = Some(hand_over);
        (devices, context)
    }

    /// Takes a peer that has come in to the device that it wants.
    fn take_in(&self, device: Device, handshake: InboundHandshake) {
        let shared = match self.get_or_make(device) {
            Ok(shared) => shared,
            Err(error) => {
                return handshake.refuse(format!("{device} cannot be used there: {error}"));
            }
        };
        match shared.engine() {
            Ok(mut engine) => engine.take_in(handshake),
            Err(error) => tracing::debug!(%error, "a peer that came in was dropped"),
        }
    }

    /// A device, if it was made.
    pub(super) fn get(&self, device: Device) -> Result<Option<Arc<Shared>>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.made().devices.get(&device).cloned())
    }

    /// A device, which is made if it is not there.
    pub(super) fn get_or_make(&self, device: Device) -> Result<Arc<Shared>> {
        if let Some(made) = self.get(device)? {
            return Ok(made);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = self.get(device)? {
            return Ok(made);
        }
        if self.made().is_closed {
            return Err(Error::Closed);
        }
        let shared = Shared::open(self.options_of(device)?, self.context.of(device))?;
        let mut made = self.made();
        if made.is_closed {
            drop(made);
            // Nothing knows it yet.
            shared.close_unused();
            return Err(Error::Closed);
        }
        self.has_any.store(true, Ordering::SeqCst);
        made.devices.insert(device, Arc::clone(&shared));
        tracing::debug!(%device, "the session has an engine for it");
        Ok(shared)
    }

    fn options_of(&self, device: Device) -> Result<SessionOptions> {
        let Device::Gpu(gpu) = device else { return Ok(self.options.clone()) };
        let emulated = self.options.emulated_gpus;
        let gpu = match emulated {
            // More than any machine has, and than ids have room for.
            0 if device.number().is_none() => return Err(no_such_gpu(gpu, gpu_count())),
            0 => Some(gpu),
            _ if gpu < emulated => None,
            _ => return Err(no_such_gpu(gpu, emulated)),
        };
        Ok(self.options.clone().gpu(gpu))
    }

    /// All that there are.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        if is_forked() || !self.has_any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.made().devices.values().cloned().collect()
    }

    /// All that there are, by their devices.
    pub(super) fn by_device(&self) -> BTreeMap<Device, Arc<Shared>> {
        match is_forked() {
            true => BTreeMap::new(),
            false => self.made().devices.clone(),
        }
    }

    /// No more are made.
    pub(super) fn close(&self) {
        if !is_forked() {
            self.made().is_closed = true;
            self.context.completions.tell_notified();
        }
    }

    /// Whether the session is closed, or about to be.
    pub(super) fn is_closed(&self) -> bool {
        self.made().is_closed
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a GPU that is not there, of `count` that are.
fn no_such_gpu(gpu: u32, count: u32) -> Error {
    Error::MemoryUnavailable(MemoryUnavailable::Cuda(CudaError::NoSuchGpu { gpu, count }))
}
