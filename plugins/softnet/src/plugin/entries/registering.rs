//! The entry regMr. It makes what sends of the memory need of CUDA, where connect has not.

use std::ffi::{c_int, c_void};

use tcpx_cuda::CudaGpu;
use tcpx_devmem::Nic;

use super::{COMMS, Comm, comm_id, explain, wrong_kind};
use crate::failure::Failure;
use crate::last_failure::log_and_set_last_failure;
use crate::log;
use crate::memory::{BindError, MemoryKind, Registration, cuda_failure, gpu_of_thread};
use crate::nic_memory::{KERNEL_DEADLINE, gpu_refusal};
use crate::plugin::mode::Mode;
use crate::plugin::registry::Id;
use crate::plugin::runtime::runtime;
use crate::plugin::{registrations, stager_slots};

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
    let sending_nic = match COMMS.tag(id) {
        Ok(Comm::LISTENS) => return wrong_kind("regMr", "send or receive"),
        Ok(tag) => tag.checked_sub(Comm::SENDS_BY_NIC),
        Err(missing) => return Err(explain("regMr", missing)),
    };
    let runtime = runtime()?;
    let mut registration = Registration::new(data, bytes, ptr_type)?;
    if registration.kind() == MemoryKind::Device {
        if runtime.mode == Mode::NcclHost {
            log::warn!("regMr: device memory, though only host memory is offered");
            return Err(Failure::Internal);
        }
        let gpu = gpu_of_thread("regMr", runtime.settings.memory)?;
        registration = registration.on_gpu(gpu).map_err(|error| cuda_failure("regMr", &error))?;
        match sending_nic {
            Some(nic) => registration = bind(registration, nic)?,
            None => prepare(id, &registration)?,
        }
    }
    registrations::insert(registration)
}

/// Hands memory of a GPU to the NIC that is to send it.
fn bind(registration: Registration, nic: u32) -> Result<Registration, Failure> {
    let (_, nic) = runtime()?.nic(nic as c_int)?;
    let gpu = registration.gpu().map_or(0, CudaGpu::ordinal);
    let named = Nic::named(&nic.interface.name).map_err(BindError::Nic);
    named.and_then(|nic| registration.bound_to(&nic, KERNEL_DEADLINE)).map_err(|error| {
        let error = match error {
            BindError::Gpu(error) => gpu_refusal(gpu, &error),
            BindError::Nic(error) => error,
        };
        log_and_set_last_failure("regMr", error);
        Failure::System
    })
}

/// Makes what sends of this memory need, if it was not made yet.
fn prepare(comm: Id, registration: &Registration) -> Result<(), Failure> {
    let Some(gpu) = registration.gpu() else { return Ok(()) };
    let slot = stager_slots::of(comm);
    slot.map_or(Ok(()), |slot| slot.fill(gpu)).map_err(|error| cuda_failure("regMr", &error))
}
