#![allow(unsafe_code)]
//! Registration of the program's own memory, which gives GPUs a view of it.

use std::ffi::{c_uint, c_void};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUresult};

use crate::address_space::{AddressKind, READ, Range, WRITE, space};
use crate::current;
use crate::pages::{PAGE_BYTES, Pages};
use crate::program_memory::Backing;
use crate::reservation::Reservation;
use crate::status::answer;
use crate::stream::wait_for;

/// Whether it can be done. `TCPX_FAKE_CUDA_REGISTER=0`: a driver that does not, as those of
/// confidential machines.
fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| std::env::var("TCPX_FAKE_CUDA_REGISTER").as_deref() != Ok("0"))
}

/// Whole pages of shared memory that GPUs are to see, whichever context is current; all else is
/// refused. The real driver takes parts of pages and private memory, too; no caller asks for that.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint) -> CUresult {
    answer(|| {
        let gpu = current::working()?.ordinal;
        let wanted = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        if !is_supported() || flags != wanted {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let (start, bytes) = (host.addr() as u64, bytes as u64);
        let is_whole = start.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
        if start == 0 || bytes == 0 || !is_whole {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut space = space();
        if space.is_mapped(start, bytes) {
            return Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        host.expose_provenance();
        let pages = Pages::of_program(start, bytes)?;
        let reservation = Reservation::new(bytes, PAGE_BYTES)?;
        let alias = reservation.start;
        let range = |side, reservation| Range {
            bytes,
            pages: Arc::clone(&pages),
            offset: 0,
            gpu,
            rights: READ | WRITE,
            side,
            reservation,
        };
        space.insert(start, range(AddressKind::Registered { alias }, None));
        space.insert(alias, range(AddressKind::Alias { host: start }, Some(reservation)));
        Ok(())
    })
}

/// Waits for all work of all GPUs: each may use the memory. What the program has freed meanwhile,
/// or put something else in the place of, stays registered; the real driver lets that pass.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(host: *mut c_void) -> CUresult {
    answer(|| {
        current::working()?;
        wait_for(|_| true);
        let start = host.addr() as u64;
        let mut space = space();
        let (alias, bytes, backing) = match space.range_of(start) {
            Some((at, range)) if at == start => match range.side {
                AddressKind::Registered { alias } => {
                    (alias, range.bytes, range.pages.backing().cloned())
                }
                _ => return Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
            },
            Some((_, Range { side: AddressKind::Registered { .. }, .. })) => {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            _ => return Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
        };
        if Backing::of(start, bytes).ok() != backing {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        space.remove(start, |_| true)?;
        space.remove(alias, |_| true).map(drop)
    })
}
