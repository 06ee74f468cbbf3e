#![allow(unsafe_code)]
//! Function table behind the symbol `ncclNetPlugin_v7`. docs/plugin-contract.md describes the table
//! in §1.2, and the functions in §2.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::mem::{align_of, offset_of, size_of};

use crate::types::{NcclResult, NetDeviceHandle, NetProperties, assert_layout};

/// `ncclDebugLogger_t`: level, subsystem flags, function or file, line, printf format, arguments.
pub type Logger = unsafe extern "C" fn(
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    line: c_int,
    format: *const c_char,
    ...
);

/// `init(logger)`. Called once per process.
pub type InitFn = unsafe extern "C" fn(logger: Option<Logger>) -> NcclResult;
/// `devices(ndev)`. Writes −1 before `init`.
pub type DevicesFn = unsafe extern "C" fn(ndev: *mut c_int) -> NcclResult;
/// `getProperties(dev, props)`.
pub type GetPropertiesFn =
    unsafe extern "C" fn(dev: c_int, props: *mut NetProperties) -> NcclResult;
/// `listen(dev, handle, listenComm)`.
pub type ListenFn = unsafe extern "C" fn(
    dev: c_int,
    handle: *mut c_void,
    listen_comm: *mut *mut c_void,
) -> NcclResult;
/// `connect(dev, handle, sendComm, sendDevComm)`. Polled with the same buffer until the comm is not
/// NULL.
pub type ConnectFn = unsafe extern "C" fn(
    dev: c_int,
    handle: *mut c_void,
    send_comm: *mut *mut c_void,
    send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult;
/// `accept(listenComm, recvComm, recvDevComm)`. Polled until the comm is not NULL; `*recvDevComm`
/// must be preallocated.
pub type AcceptFn = unsafe extern "C" fn(
    listen_comm: *mut c_void,
    recv_comm: *mut *mut c_void,
    recv_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult;
/// `regMr(comm, data, size, type, mhandle)`.
pub type RegMrFn = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult;
/// `regMrDmaBuf(…)`. NULL in the plugin.
pub type RegMrDmaBufFn = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    ptr_type: c_int,
    offset: u64,
    fd: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult;
/// `deregMr(comm, mhandle)`.
pub type DeregMrFn = unsafe extern "C" fn(comm: *mut c_void, mhandle: *mut c_void) -> NcclResult;
/// `isend(sendComm, data, size, tag, mhandle, request)`.
pub type IsendFn = unsafe extern "C" fn(
    send_comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;
/// `irecv(recvComm, n, data, sizes, tags, mhandles, request)`; n must be 1.
pub type IrecvFn = unsafe extern "C" fn(
    recv_comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;
/// `iflush(recvComm, n, data, sizes, mhandles, request)`: a query of the received size of
/// `*request`, not a flush.
pub type IflushFn = unsafe extern "C" fn(
    recv_comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;
/// `test(request, done, sizes)`. Drives the whole comm; `sizes` is never written.
pub type TestFn =
    unsafe extern "C" fn(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> NcclResult;
/// `closeSend`, `closeRecv`, `closeListen`.
pub type CloseFn = unsafe extern "C" fn(comm: *mut c_void) -> NcclResult;
/// `getDeviceMr(comm, mhandle, dptr)`. Returns 0 and writes nothing.
pub type GetDeviceMrFn = unsafe extern "C" fn(
    comm: *mut c_void,
    mhandle: *mut c_void,
    dptr: *mut *mut c_void,
) -> NcclResult;
/// `irecvConsumed(recvComm, n, request)`: the bytes were copied out of the bounce buffer.
pub type IrecvConsumedFn =
    unsafe extern "C" fn(recv_comm: *mut c_void, n: c_int, request: *mut c_void) -> NcclResult;

/// `ncclNet_v7_t`: the 152 bytes that the symbol `ncclNetPlugin_v7` *is*. Any member may be NULL
/// in a plugin that is not the original.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NcclNetV7 {
    /// `"GPUDirectTCPX_v7"` in the original.
    pub name: *const c_char,
    /// See [`InitFn`].
    pub init: Option<InitFn>,
    /// See [`DevicesFn`].
    pub devices: Option<DevicesFn>,
    /// See [`GetPropertiesFn`].
    pub get_properties: Option<GetPropertiesFn>,
    /// See [`ListenFn`].
    pub listen: Option<ListenFn>,
    /// See [`ConnectFn`].
    pub connect: Option<ConnectFn>,
    /// See [`AcceptFn`].
    pub accept: Option<AcceptFn>,
    /// See [`RegMrFn`].
    pub reg_mr: Option<RegMrFn>,
    /// See [`RegMrDmaBufFn`].
    pub reg_mr_dma_buf: Option<RegMrDmaBufFn>,
    /// See [`DeregMrFn`].
    pub dereg_mr: Option<DeregMrFn>,
    /// See [`IsendFn`].
    pub isend: Option<IsendFn>,
    /// See [`IrecvFn`].
    pub irecv: Option<IrecvFn>,
    /// See [`IflushFn`].
    pub iflush: Option<IflushFn>,
    /// See [`TestFn`].
    pub test: Option<TestFn>,
    /// See [`CloseFn`].
    pub close_send: Option<CloseFn>,
    /// See [`CloseFn`].
    pub close_recv: Option<CloseFn>,
    /// See [`CloseFn`].
    pub close_listen: Option<CloseFn>,
    /// See [`GetDeviceMrFn`].
    pub get_device_mr: Option<GetDeviceMrFn>,
    /// See [`IrecvConsumedFn`].
    pub irecv_consumed: Option<IrecvConsumedFn>,
}

// SAFETY: a table consists of addresses of functions and of a string, and a shared table only
// allows copying them. Code that calls or reads through them vouches for the access, on any thread.
unsafe impl Send for NcclNetV7 {}
// SAFETY: as above. A plugin can thus export its table as a plain `static`.
unsafe impl Sync for NcclNetV7 {}

assert_layout!(NcclNetV7, size 152, align 8, {
    name 0, init 8, devices 16, get_properties 24, listen 32, connect 40, accept 48, reg_mr 56,
    reg_mr_dma_buf 64, dereg_mr 72, isend 80, irecv 88, iflush 96, test 104, close_send 112,
    close_recv 120, close_listen 128, get_device_mr 136, irecv_consumed 144,
});
