//! Devices of a session: an engine for each, behind a lock and with a progress thread of its own.
//! An engine is made when memory of its device is first registered or reached.
//!
//! All engines have one secret. Each call picks its engine by the id of memory, by a key, or takes
//! the host's. The first operation between two devices connects them. So the wire protocol has no
//! new messages, and the peer need not know of the parts of an operation. The engines share the
//! queues of completions and of events of peers, and thus the descriptor. Notifications are taken
//! from each engine in turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tcpx_cuda::CudaError;
use tcpx_protocol::types::memory::Device;
use tcpx_sys::is_forked;

use super::shared::SharedEngine;
use crate::control::inbound_handshake::InboundHandshake;
use crate::engine::meeting::device_context::{DeviceContext, HandOverPeer};
use crate::engine::meeting::peer_names::PeerNames;
use crate::error::{Error, MemoryUnavailable, Result};
use crate::memory::device_memory::gpu_count;
use crate::settings::SessionOptions;

/// Devices of a session of all devices, except the host.
#[derive(Debug)]
pub(super) struct OtherDevices {
    options: SessionOptions,
    context: DeviceContext,
    pub(super) names: Arc<PeerNames>,
    /// Lock held while a device is made, since opening a GPU is slow.
    creating: Mutex<()>,
    table: Mutex<DeviceTable>,
    /// Whether there are any devices. Most sessions have none, and check often.
    has_any: AtomicBool,
    turns: Turns,
}

/// Turns of devices in calls that make progress. Each device costs a system call, and what a
/// program waits for comes from one of them. So the one that moved last comes first, and every
/// second call ends with it while it moves.
#[derive(Debug, Default)]
struct Turns {
    /// Number of the device that moved last.
    last: AtomicUsize,
    /// Whether the last call has left out devices.
    has_left_out: AtomicBool,
}

impl Turns {
    /// Makes a round of the first device, and of the others if it is their turn. Returns whether
    /// anything moved. `progress` makes a round of one of `count` devices.
    fn progress(&self, count: usize, mut progress: impl FnMut(usize) -> bool) -> bool {
        let first = self.last.load(Ordering::Relaxed) % count.max(1);
        let mut has_moved = progress(first);
        if has_moved && !self.has_left_out.swap(true, Ordering::Relaxed) {
            return true;
        }
        self.has_left_out.store(false, Ordering::Relaxed);
        for device in (0..count).filter(|device| *device != first) {
            if progress(device) {
                self.last.store(device, Ordering::Relaxed);
                has_moved = true;
            }
        }
        has_moved
    }
}

#[derive(Debug, Default)]
struct DeviceTable {
    devices: BTreeMap<Device, Arc<SharedEngine>>,
    is_closed: bool,
}

impl OtherDevices {
    /// Makes an empty set. Returns the set, and the context of the host, which hands peers over to
    /// it.
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
            creating: Mutex::default(),
            table: Mutex::default(),
            has_any: AtomicBool::new(false),
            turns: Turns::default(),
        });
        let weak = Arc::downgrade(&devices);
        let hand_over: HandOverPeer = Arc::new(move |device, handshake| match weak.upgrade() {
            Some(devices) => devices.take_in(device, handshake),
            None => handshake.refuse(Error::Closed.to_string()),
        });
        context.hand_over = Some(hand_over);
        (devices, context)
    }

    /// Takes an accepted peer to the device that it wants.
    fn take_in(&self, device: Device, handshake: InboundHandshake) {
        let shared = match self.get_or_create(device) {
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

    /// Returns a device, if it was made.
    pub(super) fn get(&self, device: Device) -> Result<Option<Arc<SharedEngine>>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.table().devices.get(&device).cloned())
    }

    /// Returns a device, which is made if absent.
    pub(super) fn get_or_create(&self, device: Device) -> Result<Arc<SharedEngine>> {
        if let Some(made) = self.get(device)? {
            return Ok(made);
        }
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = self.get(device)? {
            return Ok(made);
        }
        if self.table().is_closed {
            return Err(Error::Closed);
        }
        let shared = SharedEngine::open(self.options_of(device)?, self.context.of(device))?;
        let mut table = self.table();
        if table.is_closed {
            drop(table);
            // No other code knows the engine yet.
            shared.close_unused();
            return Err(Error::Closed);
        }
        self.has_any.store(true, Ordering::SeqCst);
        table.devices.insert(device, Arc::clone(&shared));
        tracing::debug!(%device, "the session has an engine for it");
        Ok(shared)
    }

    fn options_of(&self, device: Device) -> Result<SessionOptions> {
        let Device::Gpu(gpu) = device else { return Ok(self.options.clone()) };
        let emulated = self.options.emulated_gpus;
        let gpu = match emulated {
            // More GPUs than any machine has, and than ids have room for.
            0 if device.number().is_none() => return Err(no_such_gpu(gpu, gpu_count())),
            0 => Some(gpu),
            _ if gpu < emulated => None,
            _ => return Err(no_such_gpu(gpu, emulated)),
        };
        Ok(self.options.clone().gpu(gpu))
    }

    /// Returns all engines.
    pub(super) fn all(&self) -> Vec<Arc<SharedEngine>> {
        if is_forked() || !self.has_any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.table().devices.values().cloned().collect()
    }

    /// Makes a round of the host and the other devices, in [turns](Turns). Returns whether anything
    /// moved.
    pub(super) fn progress(&self, host: &SharedEngine) -> bool {
        let others = self.all();
        let device = |at: usize| at.checked_sub(1).map_or(host, |other| &*others[other]);
        self.turns.progress(others.len() + 1, |at| device(at).progress())
    }

    /// Returns all engines, by their devices.
    pub(super) fn by_device(&self) -> BTreeMap<Device, Arc<SharedEngine>> {
        match is_forked() {
            true => BTreeMap::new(),
            false => self.table().devices.clone(),
        }
    }

    /// Makes no more engines.
    pub(super) fn close(&self) {
        if !is_forked() {
            self.table().is_closed = true;
            self.context.completions.notify_waiters();
        }
    }

    /// Returns whether the session is closed, or about to be.
    pub(super) fn is_closed(&self) -> bool {
        self.table().is_closed
    }

    fn table(&self) -> MutexGuard<'_, DeviceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error of an absent GPU, where `count` are present.
fn no_such_gpu(gpu: u32, count: u32) -> Error {
    Error::MemoryUnavailable(MemoryUnavailable::Cuda(CudaError::NoSuchGpu { gpu, count }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_that_moved_last_comes_first_and_leaves_the_others_out_once() {
        let turns = Turns::default();
        // Which of three devices has something to do, and which are asked.
        for (call, (has, asked)) in [
            (&[][..], &[0, 1, 2][..]),
            (&[1], &[0, 1, 2]),
            (&[1, 2], &[1]),
            (&[1, 2], &[1, 0, 2]),
            (&[2], &[2]),
            (&[2], &[2, 0, 1]),
            (&[], &[2, 0, 1]),
            (&[0, 2], &[2]),
            (&[0], &[2, 0, 1]),
            (&[0], &[0]),
        ]
        .into_iter()
        .enumerate()
        {
            let mut seen = Vec::new();
            let moved = turns.progress(3, |device| {
                seen.push(device);
                has.contains(&device)
            });
            assert_eq!((&*seen, moved), (asked, !has.is_empty()), "call {call}");
        }
    }
}
