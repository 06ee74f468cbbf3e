#![allow(unsafe_code)]
//! Memory descriptors, by which one end tells another about its memory: as a struct, and as bytes.

use std::ffi::c_void;

use tcpx_core::{MemoryDescriptor, MemoryDescriptorError};

use crate::failure::Failure;
use crate::memory::{memory_type, ptr_type};
use crate::output::{ByteOutput, Output};
use crate::status::tcpx_status;
use crate::status::tcpx_status::TCPX_ERR_DESCRIPTOR;
use crate::{boundary, input};

/// Bytes of a serialised memory descriptor. A newer library may need more, so ask with a NULL
/// buffer.
pub const TCPX_MEMORY_DESCRIPTOR_BYTES: usize = 40;

const _: () = assert!(TCPX_MEMORY_DESCRIPTOR_BYTES == MemoryDescriptor::SERIALIZED_BYTES);

/// Where memory is, how large it is, and of what kind.
///
/// This is a plain value: it owns nothing, and keeps nothing registered.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_memory_descriptor {
    /// Address of the first byte, in the address space of whoever made the descriptor.
    pub base_addr: u64,
    /// Size in bytes.
    pub size: u64,
    /// TCPX_PTR_HOST or TCPX_PTR_CUDA.
    pub ptr_type: i32,
}

const _: () = assert!(size_of::<tcpx_memory_descriptor>() == 24);

impl From<MemoryDescriptorError> for Failure {
    fn from(error: MemoryDescriptorError) -> Self {
        Self::new(TCPX_ERR_DESCRIPTOR, error.to_string())
    }
}

/// Puts a descriptor into bytes that `tcpx_memory_descriptor_deserialize` reads on any machine.
///
/// The bytes have a version and a checksum. `out_size` gets their number; a NULL `buffer` asks for
/// the number alone.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when there can be no such
/// memory: its address or size is 0, it passes the end of the address space, or its pointer type is
/// unknown; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in `out_size`. Any thread; does not
/// block.
///
/// # Safety
/// `descriptor` is NULL or may be read; `buffer` is NULL or may be written for `capacity` bytes;
/// `out_size` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_memory_descriptor_serialize(
    descriptor: *const tcpx_memory_descriptor,
    buffer: *mut c_void,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let descriptor = unsafe { input::value("descriptor", descriptor) }?;
        // SAFETY: passed on from the caller.
        let out = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        let tcpx_memory_descriptor { base_addr, size, ptr_type } = descriptor;
        let memory = memory_type(ptr_type).ok_or(MemoryDescriptorError::PointerType(ptr_type))?;
        let descriptor = MemoryDescriptor { address: base_addr, bytes: size, memory };
        out.write(&descriptor.serialize()?)
    })
}

/// Reads a descriptor from bytes.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when the bytes are damaged
/// or of another version, or when there can be no such memory. Any thread; does not block.
///
/// # Safety
/// `bytes` is NULL or may be read for `size` bytes; `out_descriptor` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_memory_descriptor_deserialize(
    bytes: *const c_void,
    size: usize,
    out_descriptor: *mut tcpx_memory_descriptor,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_descriptor", out_descriptor) }?;
        if bytes.is_null() {
            return Err(Failure::null("bytes"));
        }
        // No version of the format comes near this length, so a longer one is not even looked at.
        // SAFETY: passed on from the caller.
        let bytes = unsafe { input::array("bytes", bytes.cast::<u8>(), size, 4096) }?;
        let MemoryDescriptor { address, bytes, memory } = MemoryDescriptor::deserialize(bytes)?;
        let ptr_type = ptr_type(memory);
        out.write(tcpx_memory_descriptor { base_addr: address, size: bytes, ptr_type });
        Ok(())
    })
}
