#![allow(unsafe_code)]
//! Registration of a list of memory: all of it or none.

use std::ffi::c_void;

use tcpx_core::{MemoryAddress, NewRegistration};

use crate::boundary;
use crate::failure::Failure;
use crate::input_array::{InputArray, InputItem};
use crate::memory::{read_access, read_type};
use crate::output::Output;
use crate::post::TCPX_MAX_BATCH;
use crate::session::tcpx_session;
use crate::status::tcpx_status;
use crate::status::tcpx_status::TCPX_ERR_NO_MEMORY;

/// Range of memory to be registered, one of a list. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct tcpx_registration {
    /// Address of the first byte.
    pub address: *mut c_void,
    /// Size in bytes.
    pub bytes: u64,
    /// TCPX_PTR_HOST or TCPX_PTR_CUDA.
    pub ptr_type: i32,
    /// 1 if the memory may be received into, else 0.
    pub is_recv: i32,
}

const _: () = assert!(size_of::<tcpx_registration>() == 24);

// SAFETY: a pointer, a word and two half words are 24 bytes without padding, as asserted; a pointer
// may have any bits.
unsafe impl InputItem for tcpx_registration {
    const NAME: &'static str = "tcpx_registration";
    const FIRST_BYTES: usize = 24;
}

impl Default for tcpx_registration {
    fn default() -> Self {
        Self { address: std::ptr::null_mut(), bytes: 0, ptr_type: 0, is_recv: 0 }
    }
}

impl tcpx_registration {
    fn to_core(self) -> Result<NewRegistration, Failure> {
        if self.address.is_null() {
            return Err(Failure::null("address"));
        }
        let (memory, access) = (read_type(self.ptr_type)?, read_access(self.is_recv)?);
        let address = MemoryAddress::from_ptr(self.address);
        Ok(NewRegistration { address, bytes: self.bytes, memory, access })
    }
}

/// Registers many ranges of memory with a session: all of them, or none if one is wrong.
///
/// `list` is an array of `count` items, of `registration_bytes` each, which is
/// sizeof(tcpx_registration). The list is copied. `out_memories` gets the id of each registration,
/// in the order of the list. The rules of `tcpx_session_register_memory` hold for each range. Each
/// registration is deregistered by itself. With a `count` of 0 nothing is registered, and both
/// pointers may be NULL.
///
/// Errors: those of `tcpx_session_register_memory`, whose text says which range is wrong;
/// `TCPX_ERR_ARGUMENT` for a `count` above TCPX_MAX_BATCH, and for another size of an item;
/// `TCPX_ERR_NO_MEMORY` when the system has no memory for the list. Any thread; does not block.
///
/// # Safety
/// `list` is NULL or may be read for `count` times `registration_bytes` bytes, and each range of it
/// follows the rules of `tcpx_session_register_memory`; `out_memories` is NULL or may be written
/// for `count` ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_register_memory_list(
    session: tcpx_session,
    list: *const tcpx_registration,
    registration_bytes: usize,
    count: usize,
    out_memories: *mut u64,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let items =
            unsafe { InputArray::new("list", list, registration_bytes, count, TCPX_MAX_BATCH) }?;
        if count > 0 {
            // SAFETY: passed on from the caller. It is checked before the work begins.
            unsafe { Output::new("out_memories", out_memories) }?;
        }
        let session = session.get()?;
        let mut ranges = Vec::new();
        ranges.try_reserve_exact(count).map_err(|_| {
            Failure::new(TCPX_ERR_NO_MEMORY, format!("no memory for a list of {count} ranges"))
        })?;
        for (index, item) in items.iter().enumerate() {
            let range = item.and_then(tcpx_registration::to_core);
            ranges.push(range.map_err(|failure| failure.of_item("list", index))?);
        }
        // SAFETY: the rules above are those of Session::register_memory for each range, and the
        // caller keeps them.
        let ids = unsafe { session.register_memory_list(&ranges) }?;
        for (index, id) in ids.iter().enumerate() {
            // SAFETY: not NULL and aligned, as checked; there are `count` ids, and the caller says
            // that `count` ids may be written.
            unsafe { out_memories.add(index).write(id.get()) };
        }
        Ok(())
    })
}
