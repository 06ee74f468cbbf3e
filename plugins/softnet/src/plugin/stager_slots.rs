//! Slots for the stagers of send comms, filled by connect or by regMr. Everything that a comm needs
//! of CUDA is made there, so that no post and no `test` makes anything.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::registry::Id;
use crate::log;
use crate::memory::{DeviceMemory, StagerSlot, gpu_of_thread};
use crate::sync::Mutex;

/// By send comm: where its stager is put. Beside the comms, because regMr may come while another
/// thread is in a call on the comm.
static SLOTS: Mutex<BTreeMap<Id, Arc<StagerSlot>>> = Mutex::new(BTreeMap::new());

/// The slot of this comm, if it has one.
pub(super) fn of(comm: Id) -> Option<Arc<StagerSlot>> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner).get(&comm).map(Arc::clone)
}

/// A slot for the stager of a send comm to come, filled where the calling thread has a GPU.
///
/// What the driver refuses here, it refuses again when memory of that GPU is registered. A comm
/// that sends none does without.
pub(super) fn for_new(chunk_bytes: u32, memory: DeviceMemory) -> Option<Arc<StagerSlot>> {
    if memory == DeviceMemory::Emulated {
        return None;
    }
    let slot = StagerSlot::new(chunk_bytes);
    if let Ok(Some(gpu)) = gpu_of_thread("connect", memory)
        && let Err(error) = slot.fill(&gpu)
    {
        log::info!("connect: pinned pages for sends of GPU memory are not allocated yet: {error}");
    }
    Some(Arc::new(slot))
}

/// The slot is that of this comm.
pub(super) fn insert(comm: Id, slot: Arc<StagerSlot>) {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner).insert(comm, slot);
}

/// The comm is closed.
pub(super) fn remove(comm: Id) {
    let slot = SLOTS.lock().unwrap_or_else(PoisonError::into_inner).remove(&comm);
    // The slot may hold a stager, whose end takes a while.
    drop(slot);
}
