#![allow(unsafe_code)]
//! Tables behind `ncclNetPlugin_v8`, `ncclNetPlugin_v9` and `ncclNetPlugin_v10`, by which newer
//! releases of NCCL find a plugin: v8 since 2.20.3, v9 since 2.24.3, v10 since 2.26.2.
//!
//! The tables have the functions of v7. Differences: `regMr` takes a `size_t` since v8, and sends
//! and receives take one since v9. `connect` takes a configuration and posts take a profiler's
//! handle since v10. The properties grow. Layouts are those of NCCL's public headers on x86-64.

use core::ffi::{c_char, c_int, c_void};
use core::mem::{align_of, offset_of, size_of};

use crate::table::{
    AcceptFn, CloseFn, ConnectFn, DeregMrFn, DevicesFn, GetDeviceMrFn, IflushFn, InitFn,
    IrecvConsumedFn, IrecvFn, IsendFn, ListenFn, Logger, RegMrDmaBufFn, TestFn,
};
use crate::types::{NcclResult, NetDeviceHandle, assert_layout};

/// Physical devices that one virtual device may have.
pub const MAX_DEVICES_OF_VIRTUAL: usize = 4;

/// `ncclNetProperties_v8_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NetPropertiesV8 {
    /// Interface name.
    pub name: *const c_char,
    /// Real path under `/sys`; NULL for virtual interfaces.
    pub pci_path: *const c_char,
    /// Unique id of the NIC.
    pub guid: u64,
    /// Bits of [`PTR_HOST`](crate::PTR_HOST), [`PTR_CUDA`](crate::PTR_CUDA) and
    /// [`PTR_DMABUF`](crate::PTR_DMABUF).
    pub ptr_support: c_int,
    /// 1 when a registration is good for every comm.
    pub reg_is_global: c_int,
    /// Port speed in Mbit/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Latency in µs, 0 when unknown.
    pub latency: f32,
    /// Comms the NIC can hold.
    pub max_comms: c_int,
    /// Receives one `irecv` may group.
    pub max_recvs: c_int,
    /// [`NET_DEVICE_HOST`](crate::NET_DEVICE_HOST) or
    /// [`NET_DEVICE_UNPACK`](crate::NET_DEVICE_UNPACK).
    pub net_device_type: c_int,
    /// Version of the device layout; 0 where there is none.
    pub net_device_version: c_int,
}

/// `ncclNetVDeviceProps_v9_t`, and v10's: the NICs that a device consists of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VirtualDevice {
    /// Number of NICs.
    pub count: c_int,
    /// Numbers of the NICs.
    pub devices: [c_int; MAX_DEVICES_OF_VIRTUAL],
}

/// `ncclNetProperties_v9_t`, and v10's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NetPropertiesV9 {
    /// As in [`NetPropertiesV8`], like all members without a description here.
    pub name: *const c_char,
    /// See [`NetPropertiesV8`].
    pub pci_path: *const c_char,
    /// See [`NetPropertiesV8`].
    pub guid: u64,
    /// See [`NetPropertiesV8`].
    pub ptr_support: c_int,
    /// See [`NetPropertiesV8`].
    pub reg_is_global: c_int,
    /// 1 when every receive must be flushed.
    pub force_flush: c_int,
    /// See [`NetPropertiesV8`].
    pub speed: c_int,
    /// See [`NetPropertiesV8`].
    pub port: c_int,
    /// See [`NetPropertiesV8`].
    pub latency: f32,
    /// See [`NetPropertiesV8`].
    pub max_comms: c_int,
    /// See [`NetPropertiesV8`].
    pub max_recvs: c_int,
    /// See [`NetPropertiesV8`].
    pub net_device_type: c_int,
    /// See [`NetPropertiesV8`].
    pub net_device_version: c_int,
    /// NICs that the device consists of: the device itself, where there are no virtual devices.
    pub virtual_device: VirtualDevice,
    /// Longest message between two ranks.
    pub max_p2p_bytes: usize,
    /// Longest message of a collective that the network carries out.
    pub max_coll_bytes: usize,
}

/// `ncclNetCommConfig_v10_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CommConfigV10 {
    /// Class of traffic; −1 where none is requested.
    pub traffic_class: c_int,
}

/// `ncclProfilerCallback_t`: function that a plugin may call for a profiler. It is never called
/// here.
pub type ProfilerFn = unsafe extern "C" fn(
    event: *mut *mut c_void,
    kind: c_int,
    parent: *mut c_void,
    plugin: i64,
    data: *mut c_void,
) -> NcclResult;

/// `getProperties` of v8.
pub type GetPropertiesV8Fn =
    unsafe extern "C" fn(dev: c_int, props: *mut NetPropertiesV8) -> NcclResult;
/// `getProperties` of v9 and v10.
pub type GetPropertiesV9Fn =
    unsafe extern "C" fn(dev: c_int, props: *mut NetPropertiesV9) -> NcclResult;
/// `regMr` since v8.
pub type RegMrV8Fn = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult;
/// `isend` of v9.
pub type IsendV9Fn = unsafe extern "C" fn(
    send_comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;
/// `irecv` of v9.
pub type IrecvV9Fn = unsafe extern "C" fn(
    recv_comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;
/// `makeVDevice` of v9 and v10.
pub type MakeVirtualDeviceFn =
    unsafe extern "C" fn(dev: *mut c_int, props: *mut VirtualDevice) -> NcclResult;
/// `init` of v10.
pub type InitV10Fn =
    unsafe extern "C" fn(logger: Option<Logger>, profiler: Option<ProfilerFn>) -> NcclResult;
/// `connect` of v10.
pub type ConnectV10Fn = unsafe extern "C" fn(
    dev: c_int,
    config: *mut CommConfigV10,
    handle: *mut c_void,
    send_comm: *mut *mut c_void,
    send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult;
/// `isend` of v10.
pub type IsendV10Fn = unsafe extern "C" fn(
    send_comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    profiler_handle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;
/// `irecv` of v10.
pub type IrecvV10Fn = unsafe extern "C" fn(
    recv_comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    profiler_handles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult;

/// Declares a table: its members in order, and nothing else.
macro_rules! table {
    ($(#[$words:meta])* $name:ident { $($member:ident: $function:ty),* $(,)? }) => {
        $(#[$words])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "each member is documented at its type")]
        pub struct $name {
            pub name: *const c_char,
            $(pub $member: Option<$function>,)*
        }

        // SAFETY: as for the v7 table. It has addresses of functions and of a string, and a shared
        // table only allows copying them. Code that calls or reads through them vouches for the
        // access.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    };
}

table! {
    /// `ncclNet_v8_t`.
    NcclNetV8 {
        init: InitFn,
        devices: DevicesFn,
        get_properties: GetPropertiesV8Fn,
        listen: ListenFn,
        connect: ConnectFn,
        accept: AcceptFn,
        reg_mr: RegMrV8Fn,
        reg_mr_dma_buf: RegMrDmaBufFn,
        dereg_mr: DeregMrFn,
        isend: IsendFn,
        irecv: IrecvFn,
        iflush: IflushFn,
        test: TestFn,
        close_send: CloseFn,
        close_recv: CloseFn,
        close_listen: CloseFn,
        get_device_mr: GetDeviceMrFn,
        irecv_consumed: IrecvConsumedFn,
    }
}

table! {
    /// `ncclNet_v9_t`.
    NcclNetV9 {
        init: InitFn,
        devices: DevicesFn,
        get_properties: GetPropertiesV9Fn,
        listen: ListenFn,
        connect: ConnectFn,
        accept: AcceptFn,
        reg_mr: RegMrV8Fn,
        reg_mr_dma_buf: RegMrDmaBufFn,
        dereg_mr: DeregMrFn,
        isend: IsendV9Fn,
        irecv: IrecvV9Fn,
        iflush: IflushFn,
        test: TestFn,
        close_send: CloseFn,
        close_recv: CloseFn,
        close_listen: CloseFn,
        get_device_mr: GetDeviceMrFn,
        irecv_consumed: IrecvConsumedFn,
        make_virtual_device: MakeVirtualDeviceFn,
    }
}

table! {
    /// `ncclNet_v10_t`.
    NcclNetV10 {
        init: InitV10Fn,
        devices: DevicesFn,
        get_properties: GetPropertiesV9Fn,
        listen: ListenFn,
        connect: ConnectV10Fn,
        accept: AcceptFn,
        reg_mr: RegMrV8Fn,
        reg_mr_dma_buf: RegMrDmaBufFn,
        dereg_mr: DeregMrFn,
        isend: IsendV10Fn,
        irecv: IrecvV10Fn,
        iflush: IflushFn,
        test: TestFn,
        close_send: CloseFn,
        close_recv: CloseFn,
        close_listen: CloseFn,
        get_device_mr: GetDeviceMrFn,
        irecv_consumed: IrecvConsumedFn,
        make_virtual_device: MakeVirtualDeviceFn,
    }
}

assert_layout!(NetPropertiesV8, size 64, align 8, {
    name 0, pci_path 8, guid 16, ptr_support 24, reg_is_global 28, speed 32, port 36, latency 40,
    max_comms 44, max_recvs 48, net_device_type 52, net_device_version 56,
});
assert_layout!(VirtualDevice, size 20, align 4, { count 0, devices 4 });
assert_layout!(NetPropertiesV9, size 104, align 8, {
    name 0, pci_path 8, guid 16, ptr_support 24, reg_is_global 28, force_flush 32, speed 36,
    port 40, latency 44, max_comms 48, max_recvs 52, net_device_type 56, net_device_version 60,
    virtual_device 64, max_p2p_bytes 88, max_coll_bytes 96,
});
assert_layout!(CommConfigV10, size 4, align 4, { traffic_class 0 });
assert_layout!(NcclNetV8, size 152, align 8, {
    name 0, init 8, devices 16, get_properties 24, listen 32, connect 40, accept 48, reg_mr 56,
    reg_mr_dma_buf 64, dereg_mr 72, isend 80, irecv 88, iflush 96, test 104, close_send 112,
    close_recv 120, close_listen 128, get_device_mr 136, irecv_consumed 144,
});
assert_layout!(NcclNetV9, size 160, align 8, {
    name 0, init 8, devices 16, get_properties 24, listen 32, connect 40, accept 48, reg_mr 56,
    reg_mr_dma_buf 64, dereg_mr 72, isend 80, irecv 88, iflush 96, test 104, close_send 112,
    close_recv 120, close_listen 128, get_device_mr 136, irecv_consumed 144,
    make_virtual_device 152,
});
assert_layout!(NcclNetV10, size 160, align 8, {
    name 0, init 8, devices 16, get_properties 24, listen 32, connect 40, accept 48, reg_mr 56,
    reg_mr_dma_buf 64, dereg_mr 72, isend 80, irecv 88, iflush 96, test 104, close_send 112,
    close_recv 120, close_listen 128, get_device_mr 136, irecv_consumed 144,
    make_virtual_device 152,
});
