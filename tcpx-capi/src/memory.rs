#![allow(unsafe_code)]
//! Registrations: memory that a session may use.

use std::ffi::c_void;

use tcpx_core::{Access, Device, MemoryAddress, MemoryType};

use crate::extensible::{Extensible, StructOutput};
use crate::failure::Failure;
use crate::options::TCPX_GPU_NONE;
use crate::output::Output;
use crate::session::tcpx_session;
use crate::status::tcpx_status;
use crate::{boundary, input};

/// Pointer type: host memory. Data is received straight into place.
pub const TCPX_PTR_HOST: i32 = 1;
/// Pointer type: device memory. In a session whose `gpu` is TCPX_GPU_NONE ordinary memory stands in
/// for it. Data is received into the bounce buffer and unpacked from there.
pub const TCPX_PTR_CUDA: i32 = 2;

/// Properties of a registration. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_memory_info {
    /// sizeof(tcpx_memory_info), set by the program before the call.
    pub size: usize,
    /// Id of the registration, from 1 upwards. A session never uses an id twice.
    pub id: u64,
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// TCPX_PTR_HOST or TCPX_PTR_CUDA.
    pub ptr_type: i32,
    /// 1 if the memory may be received into, else 0.
    pub is_recv: i32,
}

const _: () = assert!(size_of::<tcpx_memory_info>() == 40);

// SAFETY: four words and two half words are 40 bytes without padding, as asserted.
unsafe impl Extensible for tcpx_memory_info {
    const NAME: &'static str = "tcpx_memory_info";
    const FIRST_BYTES: usize = 40;
}

/// Returns the memory type of a number from outside.
pub(crate) fn memory_type(ptr_type: i32) -> Option<MemoryType> {
    match ptr_type {
        TCPX_PTR_HOST => Some(MemoryType::Host),
        TCPX_PTR_CUDA => Some(MemoryType::Device),
        _ => None,
    }
}

/// Reads the memory type that a program gives.
pub(crate) fn read_type(ptr_type: i32) -> Result<MemoryType, Failure> {
    memory_type(ptr_type).ok_or_else(|| {
        let known = "TCPX_PTR_HOST (1) and TCPX_PTR_CUDA (2) are known";
        Failure::argument(format!("ptr_type is {ptr_type}; {known}"))
    })
}

/// Reads the access that a program wants.
pub(crate) fn read_access(is_recv: i32) -> Result<Access, Failure> {
    let receives = input::flag("is_recv", is_recv)?;
    Ok(if receives { Access::ReadWrite } else { Access::ReadOnly })
}

const _: () = assert!(MemoryType::Host.ptr_type() == TCPX_PTR_HOST);
const _: () = assert!(MemoryType::Device.ptr_type() == TCPX_PTR_CUDA);

/// Returns the number of a memory type.
pub(crate) fn ptr_type(memory: MemoryType) -> i32 {
    memory.ptr_type()
}

/// Registers memory with a session, and writes the id of the registration to `out_memory`.
///
/// The registration serves every peer and channel. Any address and any size but 0 will do; the same
/// memory may be registered more than once. With `is_recv` 1 the memory may be received into and
/// sent from, with 0 only sent from.
///
/// The memory stays the program's. It must remain valid until `tcpx_session_deregister_memory` or
/// `tcpx_session_destroy` has returned TCPX_OK. While an operation is posted on a part of the
/// memory, no other code may write that part. While a receive, or a read of a peer's memory, is
/// posted on a part, no other code may read that part either. Other peers do not reach the memory
/// unless it is exported; see `tcpx_export`.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for an unknown `ptr_type`, for
/// an `is_recv` other than 0 and 1, and for TCPX_PTR_CUDA with `group` 1, where
/// `tcpx_session_register_memory_on` names the GPU; `TCPX_ERR_MEMORY` when there can be no such
/// memory, when the session's GPU does not reach it, when the GPU may only read memory that is to
/// be received into, or when the plugin cannot receive into memory of this type. Any thread; does
/// not block.
///
/// # Safety
/// `address` is NULL or the start of `bytes` bytes that follow the rules above; `out_memory` is
/// NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_register_memory(
    session: tcpx_session,
    address: *mut c_void,
    bytes: u64,
    ptr_type: i32,
    is_recv: i32,
    out_memory: *mut u64,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_memory", out_memory) }?;
        if address.is_null() {
            return Err(Failure::null("address"));
        }
        let (memory, access) = (read_type(ptr_type)?, read_access(is_recv)?);
        let address = MemoryAddress::from_ptr(address);
        let session = session.get()?;
        // SAFETY: the rules above are those of `register_memory`, and the caller keeps them.
        let id = unsafe { session.register_memory(address, bytes, memory, access) }?;
        out.write(id.get());
        Ok(())
    })
}

/// Registers memory of a device: `device` is the CUDA ordinal of a GPU, or TCPX_GPU_NONE for host
/// memory. Otherwise the call does what `tcpx_session_register_memory` does.
///
/// With `group` 1 the first registration of a GPU's memory opens the GPU, which may take a while.
/// With 0 a session has one GPU at most, and takes memory of that GPU and of the host.
///
/// Errors: those of `tcpx_session_register_memory`; `TCPX_ERR_ARGUMENT` for a device that is none
/// of the session's; with `group` 1 the error of a GPU that does not exist or cannot be used, such
/// as `TCPX_ERR_UNAVAILABLE`. Any thread.
///
/// # Safety
/// As for `tcpx_session_register_memory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_register_memory_on(
    session: tcpx_session,
    device: i32,
    address: *mut c_void,
    bytes: u64,
    is_recv: i32,
    out_memory: *mut u64,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_memory", out_memory) }?;
        if address.is_null() {
            return Err(Failure::null("address"));
        }
        let device = device_of(device)?;
        let receives = input::flag("is_recv", is_recv)?;
        let access = if receives { Access::ReadWrite } else { Access::ReadOnly };
        let address = MemoryAddress::from_ptr(address);
        let session = session.get()?;
        // SAFETY: the rules above are those of `register_memory`, and the caller keeps them.
        let id = unsafe { session.register_memory(address, bytes, device, access) }?;
        out.write(id.get());
        Ok(())
    })
}

fn device_of(ordinal: i32) -> Result<Device, Failure> {
    match (ordinal, u32::try_from(ordinal)) {
        (TCPX_GPU_NONE, _) => Ok(Device::Host),
        (_, Ok(gpu)) => Ok(Device::Gpu(gpu)),
        _ => Err(Failure::argument(format!("device is {ordinal}; -1 or an ordinal is taken"))),
    }
}

/// Deregisters memory. After TCPX_OK the library does not touch the memory any more, and the
/// program may free it.
///
/// Keys to the memory are revoked first, as by `tcpx_unexport`: requests of peers are refused from
/// then on. Operations of this program on the memory are given up, with everything else that was
/// posted to their transfers, as by `tcpx_transfer_cancel`. This includes transfers and operations
/// that were released. The call waits for operations under way for `close_timeout_ms`; peers that
/// use the memory even then are ended.
///
/// Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`; `TCPX_ERR_MEMORY_IN_USE` when a plugin or
/// a GPU does not release the memory within 10 seconds after that; `TCPX_ERR_PLUGIN` when the
/// plugin does not return from deregistering it within 10 seconds. After the last two the memory
/// must stay as it is, the id remains valid, and another call waits again. Any thread; blocks while
/// the memory is used, as a rule for microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_deregister_memory(
    session: tcpx_session,
    memory: u64,
) -> tcpx_status {
    boundary::call(|| Ok(session.get()?.deregister_memory(input::memory_id(memory)?)?))
}

/// Writes the properties of a registration.
///
/// Set `out_info->size` to sizeof(tcpx_memory_info) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_MEMORY`. Any
/// thread; does not block.
///
/// # Safety
/// `out_info` is NULL or points to a struct of the size it names, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_memory_info(
    session: tcpx_session,
    memory: u64,
    out_info: *mut tcpx_memory_info,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { StructOutput::new(out_info) }?;
        let info = session.get()?.memory_info(input::memory_id(memory)?)?;
        out.write(tcpx_memory_info {
            size: size_of::<tcpx_memory_info>(),
            id: info.id.get(),
            address: info.address,
            bytes: info.bytes,
            ptr_type: ptr_type(info.memory),
            is_recv: (info.access == Access::ReadWrite).into(),
        })
    })
}
