//! What regMr does, and connect for it: all that a comm needs of CUDA is made there, so that no
//! post and no `test` makes anything.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, PoisonError};

use super::{COMMS, Comm, comm_id, explain, wrong_kind};
use crate::failure::Failure;
use crate::faults::close_descriptor_zero;
use crate::log;
use crate::memory::{
    DeviceMemory, MemoryKind, Registration, StagerSlot, cuda_failure, gpu_of_thread,
};
use crate::plugin::mode::Mode;
use crate::plugin::registered;
use crate::plugin::registry::Id;
use crate::plugin::runtime::runtime;
use crate::quirk::Quirk;
use crate::sync::Mutex;

/// By send comm: where its stager is put. Beside the comms, because regMr may come while another
/// thread is in a call on the comm.
static SLOTS: Mutex<BTreeMap<Id, Arc<StagerSlot>>> = Mutex::new(BTreeMap::new());

/// Registers memory.
pub(crate) fn register(
    comm: *mut c_void,
    data: usize,
    bytes: i64,
    ptr_type: c_int,
) -> Result<*mut c_void, Failure> {
    if comm.is_null() {
        log::warn!("regMr: NULL communicator");
        return Err(Failure::Internal);
    }
    let id = comm_id("regMr", comm)?;
    // Another thread may be in any other call on the comm but its close: as in the original, which
    // NCCL's proxy calls in this way.
    match COMMS.tag(id) {
        Ok(Comm::LISTENS) => return wrong_kind("regMr", "send or receive"),
        Ok(_) => {}
        Err(missing) => return Err(explain("regMr", missing)),
    }
    let runtime = runtime()?;
    let mut registration = Registration::new(data, bytes, ptr_type)?;
    if registration.kind() == MemoryKind::Device {
        if runtime.mode == Mode::NcclHost {
            log::warn!("regMr: device memory, though only host memory is offered");
            return Err(Failure::Internal);
        }
        let gpu = gpu_of_thread("regMr", runtime.settings.memory)?;
        registration = registration.on_gpu(gpu).map_err(|error| cuda_failure("regMr", &error))?;
        if runtime.settings.script.has(Quirk::Regmr) && !registration.is_exportable() {
            log::warn!("regMr: {bytes} bytes at {data:#x} cannot be exported as a dma-buf");
            close_descriptor_zero();
            return Err(Failure::Internal);
        }
        prepare(id, &registration)?;
    }
    registered::keep(registration)
}

/// Makes what sends of this memory need, if nobody has.
fn prepare(comm: Id, registration: &Registration) -> Result<(), Failure> {
    let Some(gpu) = registration.gpu() else { return Ok(()) };
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = slots.get(&comm).map(Arc::clone);
    drop(slots);
    slot.map_or(Ok(()), |slot| slot.fill(gpu)).map_err(|error| cuda_failure("regMr", &error))
}

/// A slot for the stager of a send comm to come, filled where the calling thread has a GPU.
///
/// What the driver refuses here, it refuses again when memory of that GPU is registered. A comm
/// that sends none does without.
pub(super) fn slot_for(chunk_bytes: u32, memory: DeviceMemory) -> Option<Arc<StagerSlot>> {
    if memory == DeviceMemory::Emulated {
        return None;
    }
    let slot = StagerSlot::new(chunk_bytes);
    if let Ok(Some(gpu)) = gpu_of_thread("connect", memory)
        && let Err(error) = slot.fill(&gpu)
    {
        log::info!("connect: nothing is made for sends of GPU memory yet: {error}");
    }
    Some(Arc::new(slot))
}

/// The slot is that of this comm.
pub(super) fn keep_slot(comm: Id, slot: Arc<StagerSlot>) {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner).insert(comm, slot);
}

/// The comm is closed.
pub(super) fn forget_slot(comm: Id) {
    let slot = SLOTS.lock().unwrap_or_else(PoisonError::into_inner).remove(&comm);
    // It may hold a stager, whose end takes a while.
    drop(slot);
}
