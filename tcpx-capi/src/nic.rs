#![allow(unsafe_code)]
//! Hardware of the host: NICs and GPUs.

use std::ffi::c_char;

use crate::boundary;
use crate::extensible::{self, Extensible};
use crate::failure::Failure;
use crate::output::{Output, fixed_text};
use crate::session::tcpx_session;
use crate::status::tcpx_status;

/// Size of `tcpx_nic.name` in bytes.
pub const TCPX_NIC_NAME_BYTES: usize = 64;
/// Size of `tcpx_nic.pci_path` in bytes.
pub const TCPX_NIC_PATH_BYTES: usize = 256;

/// Network interface as the plugin reports it. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tcpx_nic {
    /// sizeof(tcpx_nic), set by the program before the call.
    pub size: usize,
    /// Number that the plugin gives the interface.
    pub index: i32,
    /// Port speed in Mbit/s; 0 if it is not known.
    pub speed_mbps: i32,
    /// Interface name, as the option `nics` takes it. It ends with NUL, and is cut if it is longer.
    pub name: [c_char; TCPX_NIC_NAME_BYTES],
    /// Real path under /sys, empty if there is none. It ends with NUL, and is cut if it is longer.
    pub pci_path: [c_char; TCPX_NIC_PATH_BYTES],
}

const _: () = assert!(size_of::<tcpx_nic>() == 336);

// SAFETY: a word, two half words and two arrays of bytes whose sizes are multiples of eight: there
// is no padding, as asserted.
unsafe impl Extensible for tcpx_nic {
    const NAME: &'static str = "tcpx_nic";
    const FIRST_BYTES: usize = 336;
}

/// Writes the number of NICs that the session's plugin offers.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`. Any thread; does not block.
///
/// # Safety
/// `out_count` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_nic_count(
    session: tcpx_session,
    out_count: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_count", out_count) }?;
        out.write(session.get()?.nics().len());
        Ok(())
    })
}

/// Writes the properties of NIC number `position`, counted from 0.
///
/// Set `out_nic->size` to sizeof(tcpx_nic) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` when there is no such NIC. Any
/// thread; does not block.
///
/// # Safety
/// `out_nic` is NULL or points to a size that gives the number of bytes from it on that may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_nic(
    session: tcpx_session,
    position: usize,
    out_nic: *mut tcpx_nic,
) -> tcpx_status {
    boundary::call(|| {
        let nics = session.get()?.nics();
        let nic = nics.get(position).ok_or_else(|| {
            Failure::argument(format!("position is {position}, there are {} NICs", nics.len()))
        })?;
        let path = nic.pci_path.as_ref().map(|path| path.to_string_lossy()).unwrap_or_default();
        let value = tcpx_nic {
            size: size_of::<tcpx_nic>(),
            index: nic.index,
            speed_mbps: nic.speed_mbps,
            name: fixed_text(&nic.name),
            pci_path: fixed_text(&path),
        };
        // SAFETY: passed on from the caller.
        unsafe { extensible::fill(out_nic, value) }
    })
}

/// Writes the number of GPUs that the CUDA driver shows to this process, 0 if there is no driver.
///
/// The option `gpu` takes ordinals below this number.
///
/// Errors: `TCPX_ERR_NULL`. Any thread. The first call may take a moment, while the driver starts.
///
/// # Safety
/// `out_count` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_gpu_count(out_count: *mut usize) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_count", out_count) }?;
        out.write(tcpx_core::gpu_count() as usize);
        Ok(())
    })
}
