#![allow(unsafe_code)]
//! Memory of GPUs, and pinned memory of the host.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::IntoRawFd;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUmemRangeHandleType, CUresult};

use crate::address_space::{AddressKind, READ, Range, WRITE, space};
use crate::current;
use crate::export::export;
use crate::pages::{PAGE_BYTES, Pages};
use crate::reservation::Reservation;
use crate::status::{answer, put};
use crate::stream::wait_for;

/// From this size on, an allocation begins at a page.
const LARGE_BYTES: u64 = 1 << 20;
/// Where a smaller one begins in its page: the real driver puts several into one.
const SMALL_OFFSET: u64 = 512;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    answer(|| {
        let gpu = current::working()?.ordinal;
        let bytes = bytes as u64;
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        space().check_room(gpu, bytes)?;
        let offset = if bytes < LARGE_BYTES { SMALL_OFFSET } else { 0 };
        let pages = Pages::of_gpu(bytes + offset)?;
        let reservation = Reservation::new(bytes + offset, PAGE_BYTES)?;
        let start = reservation.start + offset;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(address, start) }?;
        let range = Range {
            bytes,
            pages,
            offset: offset as usize,
            gpu,
            rights: READ | WRITE,
            side: AddressKind::Device,
            reservation: Some(reservation),
        };
        space().insert(start, range);
        Ok(())
    })
}

/// Waits for all work of the GPU.
#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    answer(|| {
        let gpu = current::working()?;
        wait_for(|other| ptr::eq(other, gpu));
        let is_allocation =
            |range: &Range| range.side == AddressKind::Device && range.reservation.is_some();
        space().remove(address, is_allocation).map(drop)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(
    host: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> CUresult {
    answer(|| {
        let gpu = current::working()?.ordinal;
        let bytes = bytes as u64;
        let pages = Pages::new(bytes)?;
        let reservation = Reservation::new(bytes, PAGE_BYTES)?;
        let (start, alias) = (pages.host_address(), reservation.start);
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(host, ptr::with_exposed_provenance_mut(start as usize)) }?;
        let range = |side, reservation| Range {
            bytes,
            pages: Arc::clone(&pages),
            offset: 0,
            gpu,
            rights: READ | WRITE,
            side,
            reservation,
        };
        let mut space = space();
        space.insert(start, range(AddressKind::Host { alias }, None));
        space.insert(alias, range(AddressKind::Alias { host: start }, Some(reservation)));
        Ok(())
    })
}

/// Waits for all work of all GPUs: each may use pinned memory.
#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(host: *mut c_void) -> CUresult {
    answer(|| {
        current::working()?;
        wait_for(|_| true);
        let is_pinned = |range: &Range| matches!(range.side, AddressKind::Host { .. });
        let mut space = space();
        let range = space.remove(host.addr() as u64, is_pinned)?;
        match range.side {
            AddressKind::Host { alias } => space.remove(alias, |_| true).map(drop),
            AddressKind::Device | AddressKind::Registered { .. } | AddressKind::Alias { .. } => {
                Ok(())
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    device: *mut CUdeviceptr,
    host: *mut c_void,
    flags: c_uint,
) -> CUresult {
    answer(|| {
        current::working()?;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let address = host.addr() as u64;
        let space = space();
        let (start, range) = space.range_of(address).filter(|_| flags == 0).ok_or(invalid)?;
        let (AddressKind::Host { alias } | AddressKind::Registered { alias }) = range.side else {
            return Err(invalid);
        };
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(device, alias + (address - start)) }
    })
}

/// Writes nothing for a range that it refuses, as the real driver does for some: a caller that
/// looks at the descriptor then finds what was there before.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetHandleForAddressRange(
    handle: *mut c_void,
    address: CUdeviceptr,
    bytes: usize,
    kind: u32,
    flags: c_ulonglong,
) -> CUresult {
    answer(|| {
        current::working()?;
        let dma_buf = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD as u32;
        if kind != dma_buf || flags != 0 || handle.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let file = export(&space(), address, bytes as u64)?;
        // SAFETY: the caller keeps the driver's contract: there is room for a descriptor.
        unsafe { put(handle.cast::<c_int>(), file.into_raw_fd()) }
    })
}
