#![allow(unsafe_code)]
//! The table and its `extern "C"` functions. All have one shape: check the pointers, run the safe
//! body behind a panic boundary, write outputs last and only on success.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use tcpx_sys::{
    HANDLE_BYTES, Logger, NET_DEVICE_UNPACK, NcclNetV7, NcclResult, NetDeviceHandle, NetProperties,
    Stay, UNPACK_VERSION, UnpackNetDeviceHandle,
};

use super::entries::{self, Close};
use super::misuse::misuse;
use super::registered;
use super::runtime;
use crate::connect::{ListenHandle, STATE_OFFSET};
use crate::entry::Entry;
use crate::failure::Failure;
use crate::faults::ScriptedCall;
use crate::log;
use crate::memory::Piece;

/// The ncclNet v7 table of the software plugin, as a value.
///
/// `name` is `"TCPXSoft_v7"` and `regMrDmaBuf` is NULL; every other member is set. All state is the
/// process's, so every copy of the table drives the same plugin. The entries keep the rules of the
/// original (docs/plugin-contract.md), and return an error where it would corrupt, crash or hang.
#[must_use]
pub const fn table() -> NcclNetV7 {
    NcclNetV7 {
        name: c"TCPXSoft_v7".as_ptr(),
        init: Some(init),
        devices: Some(devices),
        get_properties: Some(get_properties),
        listen: Some(listen),
        connect: Some(connect),
        accept: Some(accept),
        reg_mr: Some(reg_mr),
        reg_mr_dma_buf: None,
        dereg_mr: Some(dereg_mr),
        isend: Some(isend),
        irecv: Some(irecv),
        iflush: Some(iflush),
        test: Some(test),
        close_send: Some(close_transfer),
        close_recv: Some(close_transfer),
        close_listen: Some(close_listen),
        get_device_mr: Some(get_device_mr),
        irecv_consumed: Some(irecv_consumed),
    }
}

/// Runs an entry's body; a panic in it becomes an internal error instead of unwinding into C.
///
/// In a forked child nothing runs, and nothing is logged: any lock, the logger's too, may be held
/// by a thread that is not there. What is closed there is the parent's and stays open, which is
/// all that a caller who cleans up wants to hear.
pub(super) fn guard(entry: Entry, body: impl FnOnce() -> Result<(), Failure>) -> NcclResult {
    let Ok(_stay) = Stay::begin() else {
        return match entry {
            Entry::CloseTransfer | Entry::CloseListen => NcclResult::SUCCESS,
            _ => NcclResult::INTERNAL_ERROR,
        };
    };
    if let Some(code) = runtime::scripted_call(entry).and_then(ScriptedCall::play) {
        log::warn!("{}: returns {code} as scripted", entry.name());
        return NcclResult(code);
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => NcclResult::SUCCESS,
        Ok(Err(failure)) => failure.into(),
        Err(_) => {
            // The logger itself may be what panicked.
            let _ = catch_unwind(|| log::warn!("{}: panic inside the plugin", entry.name()));
            NcclResult::INTERNAL_ERROR
        }
    }
}

/// Refuses a NULL pointer by name.
pub(super) fn not_null<T>(entry: &str, what: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(misuse(format_args!("{entry}: {what} is NULL")));
    }
    Ok(())
}

/// Refuses a negative length.
fn length(entry: &str, bytes: c_int) -> Result<usize, Failure> {
    usize::try_from(bytes).map_err(|_| {
        log::warn!("{entry}: negative size {bytes}");
        Failure::Internal
    })
}

/// Refuses grouped receives.
fn single(entry: &str, n: c_int) -> Result<(), Failure> {
    if n != 1 {
        log::warn!("{entry}: n is {n}; receives cannot be grouped");
        return Err(Failure::Internal);
    }
    Ok(())
}

/// Writes an output of the caller's.
///
/// # Safety
/// `place` is not NULL and points to memory for a `T`, aligned or not.
pub(super) unsafe fn put<T>(place: *mut T, value: T) {
    // SAFETY: the caller's promise.
    unsafe { place.write_unaligned(value) };
}

/// Reads an input of the caller's.
///
/// # Safety
/// `place` is not NULL and points to a `T`, aligned or not.
unsafe fn get<T: Copy>(place: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { place.read_unaligned() }
}

unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    guard(Entry::Init, || runtime::init(logger))
}

unsafe extern "C" fn devices(ndev: *mut c_int) -> NcclResult {
    guard(Entry::Devices, || {
        not_null("devices", "ndev", ndev)?;
        // SAFETY: not NULL; the ABI asks for a valid `int*`.
        unsafe { put(ndev, runtime::devices()) };
        Ok(())
    })
}

unsafe extern "C" fn get_properties(dev: c_int, props: *mut NetProperties) -> NcclResult {
    guard(Entry::GetProperties, || {
        not_null("getProperties", "props", props)?;
        let properties = runtime::properties(dev)
            .map_err(|_| misuse(format_args!("getProperties of device {dev}")))?;
        // SAFETY: not NULL; the ABI asks for a valid properties struct.
        unsafe { put(props, properties) };
        Ok(())
    })
}

unsafe extern "C" fn listen(
    dev: c_int,
    handle: *mut c_void,
    listen_comm: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::Listen, || {
        not_null("listen", "handle", handle)?;
        not_null("listen", "listenComm", listen_comm)?;
        let (filled, comm) = entries::listen(dev)?;
        // SAFETY: not NULL; the ABI asks for 128 bytes.
        unsafe { put(handle.cast::<[u8; HANDLE_BYTES]>(), filled.encode()) };
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(listen_comm, comm) };
        Ok(())
    })
}

unsafe extern "C" fn connect(
    dev: c_int,
    handle: *mut c_void,
    send_comm: *mut *mut c_void,
    _send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult {
    guard(Entry::Connect, || {
        not_null("connect", "handle", handle)?;
        not_null("connect", "sendComm", send_comm)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(send_comm, ptr::null_mut()) };
        // SAFETY: the state lies inside the 128 bytes of the handle.
        let state = unsafe { handle.cast::<u8>().add(STATE_OFFSET) }.cast::<u64>();
        // SAFETY: eight bytes of the handle, see above.
        let attempt = unsafe { get(state) };
        if attempt != 0 {
            let comm = entries::connect_poll(dev, attempt)?;
            // SAFETY: not NULL; the ABI asks for a valid `void**`.
            unsafe { put(send_comm, comm.unwrap_or(ptr::null_mut())) };
            return Ok(());
        }
        // SAFETY: not NULL; the ABI asks for 128 bytes.
        let bytes = unsafe { get(handle.cast::<[u8; HANDLE_BYTES]>()) };
        let decoded = ListenHandle::decode(&bytes).map_err(|error| {
            log::warn!("connect: not a handle of the software plugin: {error}");
            Failure::Internal
        })?;
        let attempt = entries::connect_start(dev, &decoded)?;
        // SAFETY: eight bytes of the handle, see above.
        unsafe { put(state, attempt) };
        Ok(())
    })
}

unsafe extern "C" fn accept(
    listen_comm: *mut c_void,
    recv_comm: *mut *mut c_void,
    recv_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult {
    guard(Entry::Accept, || {
        not_null("accept", "recvComm", recv_comm)?;
        not_null("accept", "recvDevComm", recv_dev_comm)?;
        // SAFETY: not NULL; the ABI asks for a valid pointer to a device handle pointer.
        let device_handle = unsafe { get(recv_dev_comm) };
        not_null("accept", "*recvDevComm", device_handle)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(recv_comm, ptr::null_mut()) };
        let Some((comm, device)) = entries::accept(listen_comm)? else { return Ok(()) };
        let filled = NetDeviceHandle {
            net_device_type: NET_DEVICE_UNPACK,
            net_device_version: UNPACK_VERSION,
            handle: device.cast(),
            size: size_of::<UnpackNetDeviceHandle>(),
            needs_proxy_progress: 1,
        };
        // SAFETY: not NULL; the ABI asks for a preallocated device handle behind it.
        unsafe { put(device_handle, filled) };
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(recv_comm, comm) };
        Ok(())
    })
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::RegMr, || {
        not_null("regMr", "mhandle", mhandle)?;
        let registered = entries::register(comm, data.expose_provenance(), size, ptr_type)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(mhandle, registered) };
        Ok(())
    })
}

unsafe extern "C" fn dereg_mr(_comm: *mut c_void, mhandle: *mut c_void) -> NcclResult {
    guard(Entry::DeregMr, || registered::deregister(mhandle))
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    _tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::Isend, || {
        not_null("isend", "request", request)?;
        let bytes = length("isend", size)?;
        // SAFETY: the ABI's rule for isend: `data` stays valid and unchanged until `test` says done
        // or the comm closes.
        let memory = unsafe { Piece::lent(data.expose_provenance(), bytes) };
        let posted = entries::isend(comm, memory, mhandle)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(request, posted) };
        Ok(())
    })
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    _tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::Irecv, || {
        single("irecv", n)?;
        not_null("irecv", "data", data)?;
        not_null("irecv", "sizes", sizes)?;
        not_null("irecv", "mhandles", mhandles)?;
        not_null("irecv", "request", request)?;
        // SAFETY: not NULL; the ABI asks for arrays of n = 1 elements.
        let (data, size, mhandle) = unsafe { (get(data), get(sizes), get(mhandles)) };
        let bytes = length("irecv", size)?;
        // SAFETY: the ABI's rule for irecv: `data` stays valid, and only the plugin's, until `test`
        // says done or the comm closes. For device receives it is never accessed.
        let memory = unsafe { Piece::lent(data.expose_provenance(), bytes) };
        let posted = entries::irecv(comm, memory, mhandle)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(request, posted) };
        Ok(())
    })
}

unsafe extern "C" fn iflush(
    comm: *mut c_void,
    n: c_int,
    _data: *mut *mut c_void,
    sizes: *mut c_int,
    _mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::Iflush, || {
        single("iflush", n)?;
        not_null("iflush", "sizes", sizes)?;
        not_null("iflush", "request", request)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        let bytes = entries::received_bytes(comm, unsafe { get(request) })?;
        // SAFETY: not NULL; the ABI asks for an array of n = 1 elements. A message is at most
        // `i32::MAX` long.
        unsafe { put(sizes, bytes as c_int) };
        Ok(())
    })
}

unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    _sizes: *mut c_int,
) -> NcclResult {
    guard(Entry::Test, || {
        not_null("test", "done", done)?;
        // SAFETY: not NULL; the ABI asks for a valid `int*`.
        unsafe { put(done, 0) };
        if entries::test(request)? {
            // SAFETY: as above.
            unsafe { put(done, 1) };
        }
        Ok(())
    })
}

unsafe extern "C" fn close_transfer(comm: *mut c_void) -> NcclResult {
    guard(Entry::CloseTransfer, || entries::close(comm, Close::Transfer))
}

unsafe extern "C" fn close_listen(comm: *mut c_void) -> NcclResult {
    guard(Entry::CloseListen, || entries::close(comm, Close::Listen))
}

unsafe extern "C" fn get_device_mr(
    _comm: *mut c_void,
    _mhandle: *mut c_void,
    _dptr: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::GetDeviceMr, || Ok(()))
}

unsafe extern "C" fn irecv_consumed(
    comm: *mut c_void,
    n: c_int,
    request: *mut c_void,
) -> NcclResult {
    guard(Entry::IrecvConsumed, || {
        single("irecvConsumed", n)?;
        entries::consumed(comm, request)
    })
}
