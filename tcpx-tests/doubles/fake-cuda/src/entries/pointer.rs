#![allow(unsafe_code)]
//! Attributes of an address.

use std::ffi::c_void;

use cudarc::driver::sys::{CUdeviceptr, CUmemorytype, CUpointer_attribute as Attribute, CUresult};

use crate::address_space::{AddressKind, space};
use crate::current;
use crate::status::{answer, put};

const MEMORY_TYPE: u32 = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32;
const DEVICE_POINTER: u32 = Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER as u32;
const HOST_POINTER: u32 = Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER as u32;
const DEVICE_ORDINAL: u32 = Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32;
const RANGE_START_ADDR: u32 = Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR as u32;
const RANGE_SIZE: u32 = Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE as u32;
const ACCESS_FLAGS: u32 = Attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS as u32;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(
    value: *mut c_void,
    attribute: u32,
    address: CUdeviceptr,
) -> CUresult {
    answer(|| {
        current::working()?;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let space = space();
        let (start, range) = space.range_of(address).ok_or(invalid)?;
        let within = address - start;
        let on_host = range.side != AddressKind::Device;
        let short = match attribute {
            MEMORY_TYPE if on_host => Some(CUmemorytype::CU_MEMORYTYPE_HOST as u32),
            MEMORY_TYPE => Some(CUmemorytype::CU_MEMORYTYPE_DEVICE as u32),
            DEVICE_ORDINAL => Some(range.gpu),
            // Reading and writing is 3, reading alone 1.
            ACCESS_FLAGS => Some(range.rights),
            _ => None,
        };
        if let Some(short) = short {
            // SAFETY: the caller keeps the driver's contract: room for 32 bits.
            return unsafe { put(value.cast::<u32>(), short) };
        }
        let long = match (attribute, range.side) {
            (DEVICE_POINTER, AddressKind::Host { alias } | AddressKind::Registered { alias }) => {
                alias + within
            }
            (DEVICE_POINTER, AddressKind::Device | AddressKind::Alias { .. }) => address,
            (HOST_POINTER, AddressKind::Host { .. } | AddressKind::Registered { .. }) => address,
            (HOST_POINTER, AddressKind::Alias { host }) => host + within,
            (HOST_POINTER, AddressKind::Device) => return Err(invalid),
            (RANGE_START_ADDR, _) => start,
            (RANGE_SIZE, _) => range.bytes,
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        };
        // SAFETY: the caller keeps the driver's contract: room for 64 bits.
        unsafe { put(value.cast::<u64>(), long) }
    })
}
