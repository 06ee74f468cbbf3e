#![allow(unsafe_code)]
//! The plugin's table and its additions, with what a script does to calls before and after they
//! reach the plugin. All functions have the ABI's rules for their arguments, which go to the plugin
//! as they are.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use tcpx_softnet::Entry;
use tcpx_sys::{
    CommDescriptor, CommEncryptionV1, CommHealthV1, CommPollV1, ForkGuard, Logger, NcclNetV7,
    NcclResult, NetDeviceHandle, NetProperties, PTR_CUDA,
};

use crate::dma_buf::is_exportable;
use crate::process_end::close_descriptor_zero;
use crate::quirk::Quirk;
use crate::setup::{has, scripted, taken};
use crate::{log, request_pointers, setup};

const SOFT: NcclNetV7 = tcpx_softnet::table();
const HEALTH: CommHealthV1 = tcpx_softnet::comm_health();
const POLL: CommPollV1 = tcpx_softnet::comm_poll();
const ENCRYPTION: CommEncryptionV1 = tcpx_softnet::comm_encryption();

/// Calls a function of the plugin's with the caller's arguments.
macro_rules! soft {
    ($table:ident . $member:ident ( $($argument:expr),* )) => {
        match $table.$member {
            // SAFETY: the caller's arguments, for which the ABI's rules are the same.
            Some(function) => unsafe { function($($argument),*) },
            None => NcclResult::INTERNAL_ERROR,
        }
    };
}

/// Functions to which nothing happens but what the script says of single calls.
macro_rules! scripted_only {
    ($($name:ident $entry:ident $table:ident ( $($argument:ident : $kind:ty),* );)*) => {
        $(unsafe extern "C" fn $name($($argument: $kind),*) -> NcclResult {
            match scripted(Entry::$entry) {
                Some(code) => code,
                None => soft!($table.$name($($argument),*)),
            }
        })*
    };
}

scripted_only! {
    devices Devices SOFT(ndev: *mut c_int);
    get_properties GetProperties SOFT(dev: c_int, props: *mut NetProperties);
    listen Listen SOFT(dev: c_int, handle: *mut c_void, listen_comm: *mut *mut c_void);
    connect Connect SOFT(
        dev: c_int,
        handle: *mut c_void,
        send_comm: *mut *mut c_void,
        send_dev_comm: *mut *mut NetDeviceHandle
    );
    accept Accept SOFT(
        listen_comm: *mut c_void,
        recv_comm: *mut *mut c_void,
        recv_dev_comm: *mut *mut NetDeviceHandle
    );
    dereg_mr DeregMr SOFT(comm: *mut c_void, mhandle: *mut c_void);
    close_listen CloseListen SOFT(comm: *mut c_void);
    get_device_mr GetDeviceMr SOFT(
        comm: *mut c_void,
        mhandle: *mut c_void,
        dptr: *mut *mut c_void
    );
    set_peer_timeout SetPeerTimeout HEALTH(comm: *mut c_void, milliseconds: c_uint);
    check_comm CheckComm HEALTH(comm: *mut c_void);
    descriptors Descriptors POLL(
        comm: *mut c_void,
        out: *mut CommDescriptor,
        capacity: c_int,
        count: *mut c_int
    );
    needs_call NeedsCall POLL(comm: *mut c_void, answer: *mut c_int);
    encrypt_listen EncryptListen ENCRYPTION(listen_comm: *mut c_void, secret: *const c_void);
    connect_encrypted ConnectEncrypted ENCRYPTION(
        dev: c_int,
        handle: *mut c_void,
        secret: *const c_void,
        send_comm: *mut *mut c_void,
        send_dev_comm: *mut *mut NetDeviceHandle
    );
}

/// The software plugin's table, scripted by [`configure`](crate::configure) or the environment.
#[must_use]
pub const fn table() -> NcclNetV7 {
    NcclNetV7 {
        name: SOFT.name,
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

/// Whether comms are alive, likewise.
#[must_use]
pub const fn comm_health() -> CommHealthV1 {
    CommHealthV1 { set_peer_timeout: Some(set_peer_timeout), check_comm: Some(check_comm) }
}

/// What to wait for, likewise.
#[must_use]
pub const fn comm_poll() -> CommPollV1 {
    CommPollV1 { descriptors: Some(descriptors), needs_call: Some(needs_call) }
}

/// How a comm is encrypted, likewise.
#[must_use]
pub const fn comm_encryption() -> CommEncryptionV1 {
    CommEncryptionV1 {
        encrypt_listen: Some(encrypt_listen),
        connect_encrypted: Some(connect_encrypted),
    }
}

unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    setup::init(logger)
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    if let Some(code) = scripted(Entry::RegMr) {
        return code;
    }
    let Some(setup) = taken().filter(|_| ptr_type == PTR_CUDA && has(Quirk::Regmr)) else {
        return soft!(SOFT.reg_mr(comm, data, size, ptr_type, mhandle));
    };
    let mut registered = ptr::null_mut();
    let place = if mhandle.is_null() { mhandle } else { &raw mut registered };
    let code = soft!(SOFT.reg_mr(comm, data, size, ptr_type, place));
    if !code.is_success() {
        return code;
    }
    if is_exportable(data.addr(), size, setup.memory) {
        // SAFETY: not NULL, or the plugin had refused it; the ABI asks for a valid `void**`.
        unsafe { mhandle.write_unaligned(registered) };
        return code;
    }
    let _ = soft!(SOFT.dereg_mr(comm, registered));
    log::warn!("regMr: {size} bytes at {data:p} cannot be exported as a dma-buf");
    close_descriptor_zero();
    NcclResult::INTERNAL_ERROR
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    if let Some(code) = scripted(Entry::Isend) {
        return code;
    }
    let code = soft!(SOFT.isend(comm, data, size, tag, mhandle, request));
    // SAFETY: after success the plugin has written it.
    unsafe { name(code, comm, request, true) };
    code
}

/// Names the request that a call has posted.
///
/// # Safety
/// After success the place holds the plugin's pointer to a request.
unsafe fn name(code: NcclResult, comm: *mut c_void, place: *mut *mut c_void, is_send: bool) {
    if !code.is_success() || ForkGuard::begin().is_err() {
        return;
    }
    // SAFETY: the caller's promise.
    let request = unsafe { place.read_unaligned() };
    if request.is_null() {
        return;
    }
    if is_send && has(Quirk::Progress) {
        request_pointers::sent(comm, request);
    }
    if has(Quirk::Pointers) {
        // SAFETY: as above.
        unsafe { place.write_unaligned(request_pointers::slot_of(comm, request)) };
    }
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    if let Some(code) = scripted(Entry::Irecv) {
        return code;
    }
    let code = soft!(SOFT.irecv(comm, n, data, sizes, tags, mhandles, request));
    // SAFETY: after success the plugin has written it.
    unsafe { name(code, comm, request, false) };
    code
}

unsafe extern "C" fn iflush(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    if let Some(code) = scripted(Entry::Iflush) {
        return code;
    }
    if request.is_null() {
        return soft!(SOFT.iflush(comm, n, data, sizes, mhandles, request));
    }
    // SAFETY: not NULL; the ABI asks for a request.
    let mut own = request_pointers::request_of(unsafe { request.read_unaligned() });
    soft!(SOFT.iflush(comm, n, data, sizes, mhandles, &raw mut own))
}

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> NcclResult {
    if let Some(code) = scripted(Entry::Test) {
        return code;
    }
    soft!(SOFT.test(request_pointers::request_of(request), done, sizes))
}

unsafe extern "C" fn close_transfer(comm: *mut c_void) -> NcclResult {
    if let Some(code) = scripted(Entry::CloseTransfer) {
        return code;
    }
    let code = soft!(SOFT.close_send(comm));
    if code.is_success() && ForkGuard::begin().is_ok() {
        request_pointers::closed(comm);
    }
    code
}

unsafe extern "C" fn irecv_consumed(
    comm: *mut c_void,
    n: c_int,
    request: *mut c_void,
) -> NcclResult {
    if let Some(code) = scripted(Entry::IrecvConsumed) {
        return code;
    }
    let request = request_pointers::request_of(request);
    if n == 1
        && has(Quirk::Progress)
        && ForkGuard::begin().is_ok()
        && request_pointers::is_send(request)
    {
        log::warn!("irecvConsumed: of a send request");
        return NcclResult::SUCCESS;
    }
    soft!(SOFT.irecv_consumed(comm, n, request))
}
