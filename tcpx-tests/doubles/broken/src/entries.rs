#![allow(unsafe_code)]
//! Entries of set-up and registration: passed on, with their one rule broken.
//!
//! All of them trust their caller as the software plugin does, which checks what can be checked.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use tcpx_sys::{
    HANDLE_BYTES, Logger, NcclResult, NetDeviceHandle, NetProperties, PTR_CUDA, PTR_HOST,
    UNPACK_PAGE_BYTES,
};

use crate::inner::inner;
use crate::ledger::{RecvComm, ledger};
use crate::mode::{Mode, breaks, chosen};

/// Where `connect` keeps its state in the handle.
const CONNECT_STATE_OFFSET: usize = 80;
/// What `connect` wastes in [`Mode::SlowConnect`].
const SLOW_CONNECT: Duration = Duration::from_millis(700);

/// Polls of accept that [`Mode::Stranger`] bears.
const PATIENT_POLLS: u32 = 20;

static INITIALISED: AtomicBool = AtomicBool::new(false);
static POLLS: AtomicU32 = AtomicU32::new(0);

pub(crate) unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    if chosen().is_none() {
        return NcclResult::INTERNAL_ERROR;
    }
    if INITIALISED.swap(true, Ordering::Relaxed) && breaks(Mode::InitTwice) {
        return NcclResult::SUCCESS;
    }
    if breaks(Mode::NoSync) {
        // SAFETY: init comes before everything else, so no other thread of the plugin reads the
        // environment, and the program that loads this plugin is an agent with one thread.
        unsafe { std::env::remove_var("NCCL_GPUDIRECTTCPX_RECV_SYNC") };
    }
    // SAFETY: the caller's arguments, passed on.
    unsafe { inner!(init(logger)) }
}

pub(crate) unsafe extern "C" fn devices(count: *mut c_int) -> NcclResult {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(devices(count)) };
    if breaks(Mode::DevicesEarly) && result.is_success() && !INITIALISED.load(Ordering::Relaxed) {
        // SAFETY: the software plugin succeeded, so it wrote here.
        unsafe { count.write(0) };
    }
    result
}

pub(crate) unsafe extern "C" fn get_properties(
    dev: c_int,
    properties: *mut NetProperties,
) -> NcclResult {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(get_properties(dev, properties)) };
    if breaks(Mode::MaxRecvs) && result.is_success() {
        // SAFETY: the software plugin succeeded, so it wrote here.
        unsafe { (&raw mut (*properties).max_recvs).write(8) };
    }
    result
}

pub(crate) unsafe extern "C" fn listen(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the caller's arguments, passed on.
    let mut result = unsafe { inner!(listen(dev, handle, comm)) };
    if breaks(Mode::ListenRange) && !result.is_success() {
        // SAFETY: as above.
        result = unsafe { inner!(listen(0, handle, comm)) };
    }
    if !result.is_success() {
        return result;
    }
    if breaks(Mode::HandleOverrun) {
        // SAFETY: none: this is the overrun. The check that looks for it leaves room behind its
        // handle.
        unsafe { handle.cast::<u8>().add(HANDLE_BYTES).write(0) };
    }
    if breaks(Mode::HandleState) {
        // SAFETY: the software plugin succeeded, so it wrote the handle.
        unsafe { handle.cast::<u8>().add(CONNECT_STATE_OFFSET).write(1) };
    }
    result
}

pub(crate) unsafe extern "C" fn connect(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device: *mut *mut NetDeviceHandle,
) -> NcclResult {
    if breaks(Mode::SlowConnect) {
        std::thread::sleep(SLOW_CONNECT);
    }
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(connect(dev, handle, comm, device)) };
    if breaks(Mode::SharedConnect) {
        // SAFETY: the caller's output, which the software plugin has checked or refused.
        return unsafe { share_comm(result, comm) };
    }
    if breaks(Mode::ConnectDevice) && !device.is_null() {
        // SAFETY: not NULL, and an argument of the caller's.
        let device = unsafe { device.read() };
        if !device.is_null() {
            // SAFETY: as above.
            unsafe { (&raw mut (*device).net_device_version).write(7) };
        }
    }
    result
}

/// Keeps the newest send comm for attempts that get none.
///
/// # Safety
/// `comm` is NULL or valid for a write.
unsafe fn share_comm(result: NcclResult, comm: *mut *mut c_void) -> NcclResult {
    static NEWEST: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if comm.is_null() {
        return result;
    }
    if result.is_success() {
        // SAFETY: not NULL, and the caller's promise.
        let made = unsafe { comm.read() };
        if !made.is_null() {
            NEWEST.store(made, Ordering::Relaxed);
        }
        return result;
    }
    // SAFETY: as above.
    unsafe { comm.write(NEWEST.load(Ordering::Relaxed)) };
    NcclResult::SUCCESS
}

pub(crate) unsafe extern "C" fn accept(
    listen_comm: *mut c_void,
    comm: *mut *mut c_void,
    device: *mut *mut NetDeviceHandle,
) -> NcclResult {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(accept(listen_comm, comm, device)) };
    if !result.is_success() {
        return result;
    }
    // SAFETY: the software plugin succeeded, so it checked and wrote both.
    unsafe {
        let (comm_place, comm, device) = (comm, comm.read(), device.read());
        if comm.is_null() {
            if breaks(Mode::Stranger) && POLLS.fetch_add(1, Ordering::Relaxed) > PATIENT_POLLS {
                comm_place.write(std::ptr::without_provenance_mut(0x1000));
                return result;
            }
            if breaks(Mode::DeviceHandleEarly) {
                (&raw mut (*device).net_device_version).write(7);
            }
            return result;
        }
        if breaks(Mode::DeviceVersion) {
            (&raw mut (*device).net_device_version).write(8);
        }
        let device = (*device).handle.expose_provenance();
        ledger().comms.insert(comm.addr(), RecvComm { device, posted: 0, consumed: 0 });
    }
    result
}

pub(crate) unsafe extern "C" fn close(comm: *mut c_void) -> NcclResult {
    if comm.is_null() && breaks(Mode::CloseNull) {
        return NcclResult::SYSTEM_ERROR;
    }
    if breaks(Mode::CloseLeak) {
        leak();
    }
    let mut ledger = ledger();
    ledger.comms.remove(&comm.addr());
    ledger.requests.retain(|_, request| request.comm != comm.addr());
    drop(ledger);
    // SAFETY: the caller's arguments, passed on. The two closes of the software plugin are one
    // function.
    unsafe { inner!(close_recv(comm)) }
}

/// Leaves a descriptor open.
fn leak() {
    // SAFETY: dup touches no memory.
    unsafe { libc::dup(libc::STDERR_FILENO) };
}

pub(crate) unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: c_int,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    if breaks(Mode::Exit) {
        // SAFETY: ends the process, as some failures of the original do.
        unsafe { libc::_exit(1) };
    }
    if kind == PTR_CUDA && !(bytes as usize).is_multiple_of(UNPACK_PAGE_BYTES) {
        if breaks(Mode::OddSize) {
            return NcclResult::SYSTEM_ERROR;
        }
        if breaks(Mode::Stdin) {
            // SAFETY: the descriptor is not this plugin's, which is the point; close touches no
            // memory.
            unsafe { libc::close(libc::STDIN_FILENO) };
            return NcclResult::INTERNAL_ERROR;
        }
    }
    let known = matches!(kind, PTR_HOST | PTR_CUDA);
    let kind = if !known && breaks(Mode::DmaBuf) { PTR_HOST } else { kind };
    let data =
        if breaks(Mode::Alignment) { data.map_addr(|address| address & !0xfff) } else { data };
    // SAFETY: the caller's arguments, passed on; a rounded address is still in the caller's
    // allocation or never used.
    let result = unsafe { inner!(reg_mr(comm, data, bytes, kind, mhandle)) };
    if result.is_success() {
        // SAFETY: the software plugin succeeded, so it wrote here.
        let mhandle = unsafe { mhandle.read() };
        ledger().types.insert(mhandle.addr(), kind);
    }
    result
}

pub(crate) unsafe extern "C" fn dereg_mr(comm: *mut c_void, mhandle: *mut c_void) -> NcclResult {
    if mhandle.is_null() && breaks(Mode::DeregNull) {
        return NcclResult::INTERNAL_ERROR;
    }
    if breaks(Mode::Leak) {
        leak();
    }
    ledger().types.remove(&mhandle.addr());
    // SAFETY: the caller's arguments, passed on.
    unsafe { inner!(dereg_mr(comm, mhandle)) }
}

pub(crate) unsafe extern "C" fn get_device_mr(
    comm: *mut c_void,
    mhandle: *mut c_void,
    pointer: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(get_device_mr(comm, mhandle, pointer)) };
    if breaks(Mode::DeviceMr) && !pointer.is_null() {
        // SAFETY: not NULL, and an output of the caller's.
        unsafe { pointer.write(mhandle) };
    }
    result
}
