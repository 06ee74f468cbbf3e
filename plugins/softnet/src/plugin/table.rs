#![allow(unsafe_code)]
//! The v7 table and its `extern "C"` functions. All have one shape: check the pointers, run the
//! safe body behind a panic boundary, write outputs last and only on success.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use tcpx_seal::secret::SharedSecret;
use tcpx_sys::{
    HANDLE_BYTES, Logger, NET_DEVICE_UNPACK, NcclNetV7, NcclResult, NetDeviceHandle, NetProperties,
    UNPACK_VERSION, UnpackNetDeviceHandle,
};

use super::arguments::{get, guard, length, not_null, put, single};
use super::caller::Table;
use super::entries::{self, CloseEntry, registering, requests};
use super::misuse::misuse;
use super::{registrations, runtime, start};
use crate::connect::{ListenHandle, STATE_OFFSET};
use crate::entry::Entry;
use crate::failure::Failure;
use crate::log;
use crate::memory::Piece;

/// What every table is called, so that `NCCL_NET` is the same for every release of NCCL.
pub(super) const NAME: &CStr = c"TCPXSoft_v7";

/// The ncclNet v7 table of the software plugin, as a value.
///
/// For NCCL there are [later tables](crate::table_v10) as well, over the same functions. `name` is
/// `"TCPXSoft_v7"` and `regMrDmaBuf` is NULL; every other member is set. All state is the
/// process's, so every copy of the table drives the same plugin. The entries keep the rules of the
/// original (docs/plugin-contract.md), and return an error where it would corrupt, crash or hang.
#[must_use]
pub const fn table() -> NcclNetV7 {
    NcclNetV7 {
        name: NAME.as_ptr(),
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

unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    guard(Entry::Init, || start::init(logger, Table::V7))
}

pub(super) unsafe extern "C" fn devices(ndev: *mut c_int) -> NcclResult {
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

pub(super) unsafe extern "C" fn listen(
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

pub(super) unsafe extern "C" fn connect(
    dev: c_int,
    handle: *mut c_void,
    send_comm: *mut *mut c_void,
    _send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult {
    guard(Entry::Connect, || {
        // SAFETY: the caller's pointers, for which the ABI has these rules.
        unsafe { connect_with("connect", dev, handle, None, send_comm) }
    })
}

/// Starts a connect attempt, or polls it. `secret`: all is to be encrypted; only the first call
/// uses it.
///
/// # Safety
/// NULL, or 128 bytes at `handle` and a valid `void**`.
pub(super) unsafe fn connect_with(
    entry: &str,
    dev: c_int,
    handle: *mut c_void,
    secret: Option<SharedSecret>,
    send_comm: *mut *mut c_void,
) -> Result<(), Failure> {
    not_null(entry, "handle", handle)?;
    not_null(entry, "sendComm", send_comm)?;
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
        log::warn!("{entry}: not a handle of the software plugin: {error}");
        Failure::Internal
    })?;
    let attempt = entries::connect_start(dev, &decoded, secret)?;
    // SAFETY: eight bytes of the handle, see above.
    unsafe { put(state, attempt) };
    Ok(())
}

pub(super) unsafe extern "C" fn accept(
    listen_comm: *mut c_void,
    recv_comm: *mut *mut c_void,
    recv_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult {
    guard(Entry::Accept, || {
        not_null("accept", "recvComm", recv_comm)?;
        let device_handle = match runtime::mode().unpacks() {
            // SAFETY: the ABI asks for NULL, or a valid pointer to a device handle pointer.
            true => Some(unsafe { device_handle(recv_dev_comm) }?),
            false => None,
        };
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
        if let Some(device_handle) = device_handle {
            // SAFETY: not NULL; the ABI asks for a preallocated device handle behind it.
            unsafe { put(device_handle, filled) };
        }
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(recv_comm, comm) };
        Ok(())
    })
}

/// Where `accept` says how the consumer finds the bytes.
///
/// # Safety
/// `place` is NULL, or points to a pointer.
unsafe fn device_handle(place: *mut *mut NetDeviceHandle) -> Result<*mut NetDeviceHandle, Failure> {
    not_null("accept", "recvDevComm", place)?;
    // SAFETY: not NULL, so the caller's promise holds.
    let device_handle = unsafe { get(place) };
    not_null("accept", "*recvDevComm", device_handle)?;
    Ok(device_handle)
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { register(comm, data, size.into(), ptr_type, mhandle) }
}

/// `regMr` of any table.
///
/// # Safety
/// `mhandle` is NULL, or a valid place for the answer.
pub(super) unsafe fn register(
    comm: *mut c_void,
    data: *mut c_void,
    size: i64,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::RegMr, || {
        not_null("regMr", "mhandle", mhandle)?;
        let registered = registering::register(comm, data.expose_provenance(), size, ptr_type)?;
        // SAFETY: not NULL; the caller's promise.
        unsafe { put(mhandle, registered) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn dereg_mr(_comm: *mut c_void, mhandle: *mut c_void) -> NcclResult {
    guard(Entry::DeregMr, || registrations::deregister(mhandle))
}

pub(super) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    _tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { send(comm, data, size.into(), mhandle, request) }
}

/// `isend` of any table.
///
/// # Safety
/// `request` is NULL, or a valid place for the answer. `data` stays valid and unchanged until
/// `test` says done or the comm closes.
pub(super) unsafe fn send(
    comm: *mut c_void,
    data: *mut c_void,
    size: i64,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::Isend, || {
        not_null("isend", "request", request)?;
        let bytes = length("isend", size)?;
        // SAFETY: the caller's promise.
        let memory = bytes.map(|bytes| unsafe { Piece::lent(data.expose_provenance(), bytes) });
        let posted = requests::isend(comm, memory, mhandle)?;
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        unsafe { put(request, posted) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    _tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI asks for NULL, or an array of n elements; it is read when n is 1.
    let size = || (!sizes.is_null()).then(|| i64::from(unsafe { get(sizes) }));
    // SAFETY: the ABI's rules are the same.
    unsafe { receive(comm, n, data, size, mhandles, request) }
}

/// `irecv` of any table. `size` reads the first of the sizes, if there are any.
///
/// # Safety
/// `data` and `mhandles` are NULL, or arrays of `n` elements; `request` is NULL, or a valid place
/// for the answer. What `data` points to stays valid, and only the plugin's, until `test` says done
/// or the comm closes.
pub(super) unsafe fn receive(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    size: impl FnOnce() -> Option<i64>,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::Irecv, || {
        single("irecv", n)?;
        not_null("irecv", "data", data)?;
        let size = size().ok_or_else(|| misuse(format_args!("irecv: sizes is NULL")))?;
        not_null("irecv", "mhandles", mhandles)?;
        not_null("irecv", "request", request)?;
        // SAFETY: not NULL; the caller promises arrays of n = 1 elements.
        let (data, mhandle) = unsafe { (get(data), get(mhandles)) };
        let bytes = length("irecv", size)?;
        // SAFETY: the caller's promise. For device receives it is never accessed.
        let memory = bytes.map(|bytes| unsafe { Piece::lent(data.expose_provenance(), bytes) });
        let posted = requests::irecv(comm, memory, mhandle)?;
        // SAFETY: not NULL; the caller promises a valid place.
        unsafe { put(request, posted) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn iflush(
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
        if !runtime::mode().unpacks() {
            // SAFETY: not NULL; the ABI asks for a valid `void**`. There is nothing to flush.
            unsafe { put(request, ptr::null_mut()) };
            return Ok(());
        }
        // SAFETY: not NULL; the ABI asks for a valid `void**`.
        let bytes = requests::received_bytes(comm, unsafe { get(request) })?;
        // SAFETY: not NULL; the ABI asks for an array of n = 1 elements. A message is at most
        // `i32::MAX` long.
        unsafe { put(sizes, bytes as c_int) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    sizes: *mut c_int,
) -> NcclResult {
    guard(Entry::Test, || {
        not_null("test", "done", done)?;
        // SAFETY: not NULL; the ABI asks for a valid `int*`.
        unsafe { put(done, 0) };
        let Some(bytes) = requests::test(request)? else { return Ok(()) };
        if !sizes.is_null() && !runtime::mode().unpacks() {
            // SAFETY: not NULL; the ABI asks for room for a size. A message is at most `i32::MAX`
            // long.
            unsafe { put(sizes, bytes as c_int) };
        }
        // SAFETY: as above.
        unsafe { put(done, 1) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close_transfer(comm: *mut c_void) -> NcclResult {
    guard(Entry::CloseTransfer, || entries::close(comm, CloseEntry::Transfer))
}

pub(super) unsafe extern "C" fn close_listen(comm: *mut c_void) -> NcclResult {
    guard(Entry::CloseListen, || entries::close(comm, CloseEntry::Listen))
}

pub(super) unsafe extern "C" fn get_device_mr(
    _comm: *mut c_void,
    _mhandle: *mut c_void,
    _dptr: *mut *mut c_void,
) -> NcclResult {
    guard(Entry::GetDeviceMr, || Ok(()))
}

pub(super) unsafe extern "C" fn irecv_consumed(
    comm: *mut c_void,
    n: c_int,
    request: *mut c_void,
) -> NcclResult {
    guard(Entry::IrecvConsumed, || {
        single("irecvConsumed", n)?;
        requests::consumed(comm, request)
    })
}
