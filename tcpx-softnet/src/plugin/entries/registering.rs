//! What regMr does. What sends of the memory need of CUDA is made here, where connect has not.

use std::ffi::{c_int, c_void};

use tcpx_cuda::CudaGpu;

use super::{COMMS, Comm, comm_id, explain, wrong_kind};
use crate::failure::Failure;
use crate::faults::close_descriptor_zero;
use crate::log;
use crate::memory::{MemoryKind, Registration, cuda_failure, gpu_of_thread};
use crate::plugin::mode::Mode;
use crate::plugin::registered;
use crate::plugin::registry::Id;
use crate::plugin::runtime::runtime;
use crate::plugin::stager_slots;
use crate::quirk::Quirk;

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
        runtime.check_gpu("regMr", gpu.as_ref().map(CudaGpu::ordinal))?;
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
    let slot = stager_slots::of(comm);
    slot.map_or(Ok(()), |slot| slot.fill(gpu)).map_err(|error| cuda_failure("regMr", &error))
}
