#![allow(unsafe_code)]
//! Memory descriptors, by which one end describes its memory to another: as a struct, and as bytes.

use std::ffi::c_void;

use tcpx_core::{MemoryDescriptor, MemoryDescriptorError};

use crate::extensible::{self, Extensible, StructOutput};
use crate::failure::Failure;
use crate::memory::{memory_type, ptr_type};
use crate::output::ByteOutput;
use crate::status::tcpx_status;
use crate::status::tcpx_status::TCPX_ERR_DESCRIPTOR;
use crate::{boundary, input};

/// Bytes of a serialised memory descriptor. A newer library may need more, so ask with a NULL
/// buffer.
pub const TCPX_MEMORY_DESCRIPTOR_BYTES: usize = 40;

const _: () = assert!(TCPX_MEMORY_DESCRIPTOR_BYTES == MemoryDescriptor::SERIALIZED_BYTES);

/// Description of memory: its address, its size and its kind.
///
/// This is a plain value: it owns nothing, and keeps nothing registered. New members are added at
/// the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_memory_descriptor {
    /// sizeof(tcpx_memory_descriptor), set by the program before either call.
    pub size: usize,
    /// Address of the first byte, in the address space of the process that made the descriptor.
    pub base_addr: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// TCPX_PTR_HOST or TCPX_PTR_CUDA.
    pub ptr_type: i32,
    /// 0.
    pub reserved: u32,
}

const _: () = assert!(size_of::<tcpx_memory_descriptor>() == 32);

// SAFETY: three words and two half words are 32 bytes without padding, as asserted.
unsafe impl Extensible for tcpx_memory_descriptor {
    const NAME: &'static str = "tcpx_memory_descriptor";
    const FIRST_BYTES: usize = 32;
}

impl From<MemoryDescriptorError> for Failure {
    fn from(error: MemoryDescriptorError) -> Self {
        Self::new(TCPX_ERR_DESCRIPTOR, error.to_string())
    }
}

/// Writes a descriptor as bytes that `tcpx_memory_descriptor_deserialize` reads on any machine.
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
/// `descriptor` is NULL or points to a struct of the size it names; `buffer` is NULL or may be
/// written for `capacity` bytes; `out_size` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_memory_descriptor_serialize(
    descriptor: *const tcpx_memory_descriptor,
    buffer: *mut c_void,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let descriptor =
            unsafe { extensible::read(descriptor, tcpx_memory_descriptor::default()) }?;
        // SAFETY: passed on from the caller.
        let out = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        let tcpx_memory_descriptor { base_addr, bytes, ptr_type, reserved, .. } = descriptor;
        if reserved != 0 {
            return Err(Failure::argument("reserved of the descriptor is not 0"));
        }
        let memory = memory_type(ptr_type).ok_or(MemoryDescriptorError::PointerType(ptr_type))?;
        let descriptor = MemoryDescriptor { address: base_addr, bytes, memory };
        out.write(&descriptor.serialize()?)
    })
}

/// Reads a descriptor from bytes, or from the text "base_addr,bytes,ptr_type": three decimal
/// numbers without signs and spaces, and without a terminating NUL in `size`.
///
/// Set `out_descriptor->size` to sizeof(tcpx_memory_descriptor) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`; `TCPX_ERR_DESCRIPTOR` when the bytes are damaged,
/// of another version or no descriptor, or when there can be no such memory. Any thread; does not
/// block.
///
/// # Safety
/// `bytes` is NULL or may be read for `size` bytes; `out_descriptor` is NULL or points to a struct
/// of the size it names, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_memory_descriptor_deserialize(
    bytes: *const c_void,
    size: usize,
    out_descriptor: *mut tcpx_memory_descriptor,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { StructOutput::new(out_descriptor) }?;
        if bytes.is_null() {
            return Err(Failure::null("bytes"));
        }
        // No version of the format comes near this length, so a longer one is not read.
        // SAFETY: passed on from the caller.
        let bytes = unsafe { input::array("bytes", bytes.cast::<u8>(), size, 4096) }?;
        let MemoryDescriptor { address, bytes, memory } = MemoryDescriptor::deserialize(bytes)?;
        let ptr_type = ptr_type(memory);
        let size = size_of::<tcpx_memory_descriptor>();
        out.write(tcpx_memory_descriptor { size, base_addr: address, bytes, ptr_type, reserved: 0 })
    })
}
