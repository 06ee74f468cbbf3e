#![allow(unsafe_code)]
//! Memory that is made, and then mapped where a program has reserved addresses.

use std::ffi::{c_int, c_ulonglong};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocationType, CUresult,
};

use crate::address_space::{AddressKind, READ, Range, WRITE, space};
use crate::gpu::gpu;
use crate::handles::Handles;
use crate::pages::Pages;
use crate::reservation::Reservation;
use crate::status::{Result, answer, put};
use crate::stream::wait_for;

/// What sizes and addresses are multiples of.
const GRANULARITY: u64 = 2 << 20;

/// Memory that was made and may be mapped.
static ALLOCATIONS: Handles<PhysicalAllocation> = Handles::new();

#[derive(Debug)]
struct PhysicalAllocation {
    gpu: u32,
    bytes: u64,
    pages: Arc<Pages>,
}

/// The GPU on which memory of these properties is made: pinned to it, and of no other kind.
///
/// # Safety
/// `what` is NULL or valid for reads.
unsafe fn gpu_of(what: *const CUmemAllocationProp) -> Result<u32> {
    if what.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the pointer.
    let (kind, location) = unsafe { ((*what).type_, (*what).location) };
    if kind != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED
        || location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
    {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    Ok(gpu(location.id)?.ordinal)
}

fn check_multiple(bytes: u64) -> Result<()> {
    match bytes > 0 && bytes.is_multiple_of(GRANULARITY) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    what: *const CUmemAllocationProp,
    _option: u32,
) -> CUresult {
    answer(|| {
        // SAFETY: the caller keeps the driver's contract.
        unsafe { gpu_of(what) }?;
        // SAFETY: as above.
        unsafe { put(granularity, GRANULARITY as usize) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAddressReserve(
    address: *mut CUdeviceptr,
    bytes: usize,
    align: usize,
    wanted: CUdeviceptr,
    flags: c_ulonglong,
) -> CUresult {
    answer(|| {
        check_multiple(bytes as u64)?;
        if align != 0 || wanted != 0 || flags != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let reservation = Reservation::new(bytes as u64, GRANULARITY)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(address, reservation.start) }?;
        space().reserve(reservation);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) -> CUresult {
    answer(|| space().unreserve(address, bytes as u64))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemCreate(
    handle: *mut CUmemGenericAllocationHandle,
    bytes: usize,
    what: *const CUmemAllocationProp,
    flags: c_ulonglong,
) -> CUresult {
    answer(|| {
        // SAFETY: the caller keeps the driver's contract.
        let gpu = unsafe { gpu_of(what) }?;
        let bytes = bytes as u64;
        check_multiple(bytes)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        space().check_room(gpu, bytes)?;
        let made = ALLOCATIONS.insert::<()>(Arc::new(PhysicalAllocation {
            gpu,
            bytes,
            pages: Pages::of_gpu(bytes)?,
        }));
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(handle, made.addr() as u64) }
    })
}

/// Memory that is mapped stays.
#[unsafe(no_mangle)]
extern "C" fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> CUresult {
    answer(|| ALLOCATIONS.remove::<()>(ptr::without_provenance_mut(handle as usize)).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemMap(
    address: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> CUresult {
    answer(|| {
        let made = ALLOCATIONS.get::<()>(ptr::without_provenance_mut(handle as usize))?;
        let bytes = bytes as u64;
        check_multiple(bytes)?;
        let mut space = space();
        let is_free = space.is_reserved(address, bytes) && !space.is_mapped(address, bytes);
        if offset != 0 || flags != 0 || bytes != made.bytes || !is_free {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let range = Range {
            bytes,
            pages: Arc::clone(&made.pages),
            offset: 0,
            gpu: made.gpu,
            rights: 0,
            side: AddressKind::Device,
            reservation: None,
        };
        space.insert(address, range);
        Ok(())
    })
}

/// Of a range that is one mapping, for one GPU: the one whose memory it is.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemSetAccess(
    address: CUdeviceptr,
    bytes: usize,
    access: *const CUmemAccessDesc,
    count: usize,
) -> CUresult {
    answer(|| {
        if access.is_null() || count != 1 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        // SAFETY: the caller keeps the driver's contract.
        let access = unsafe { access.read() };
        let mut space = space();
        let range = space.range_mut(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let is_it = range.reservation.is_none() && range.bytes == bytes as u64;
        if !is_it || access.location.id != range.gpu as c_int {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        range.rights = access.flags as u32 & (READ | WRITE);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemUnmap(address: CUdeviceptr, bytes: usize) -> CUresult {
    answer(|| {
        wait_for(|_| true);
        let is_it = |range: &Range| range.reservation.is_none() && range.bytes == bytes as u64;
        let is_mapping = |range: &Range| is_it(range) && range.side == AddressKind::Device;
        let mut space = space();
        space.remove(address, is_mapping).map(drop)
    })
}
