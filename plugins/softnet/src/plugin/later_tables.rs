#![allow(unsafe_code)]
//! Tables v8 to v10, for NCCL alone. They are v7's functions, except those whose types have
//! changed.

use std::ffi::{c_int, c_void};

use tcpx_sys::{
    CommConfigV10, Logger, NcclNetV8, NcclNetV9, NcclNetV10, NcclResult, NetDeviceHandle,
    NetPropertiesV8, NetPropertiesV9, ProfilerFn,
};

use super::arguments::{get, guard, not_null, put, wide};
use super::caller::Table;
use super::misuse::misuse;
use super::nic::{properties_v8, properties_v9};
use super::table::{
    NAME, accept, close_listen, close_transfer, connect, dereg_mr, devices, get_device_mr, iflush,
    irecv_consumed, listen, receive, register, send, test,
};
use super::{runtime, start};
use crate::entry::Entry;

/// Members that are the same in all of them.
macro_rules! later_table {
    ($table:ident { $($member:ident: $function:expr),* $(,)? }) => {
        $table {
            name: NAME.as_ptr(),
            devices: Some(devices),
            listen: Some(listen),
            accept: Some(accept),
            reg_mr: Some(reg_mr),
            reg_mr_dma_buf: None,
            dereg_mr: Some(dereg_mr),
            iflush: Some(iflush),
            test: Some(test),
            close_send: Some(close_transfer),
            close_recv: Some(close_transfer),
            close_listen: Some(close_listen),
            get_device_mr: Some(get_device_mr),
            irecv_consumed: Some(irecv_consumed),
            $($member: $function),*
        }
    };
}

/// The table by which NCCL 2.20 to 2.23 finds the plugin.
///
/// A caller of `init` of this or a later table is taken for NCCL: it gets host memory only, unless
/// [`NcclMode::Unpack`](crate::NcclMode::Unpack) is asked for. `test` then says how long a message
/// was and frees a receive by itself. `irecvConsumed` does nothing, and `accept` needs no device
/// handle. A post for which there is no room returns 0 and no request. A setting that is not
/// allowed makes `listen` and `connect` return 3, not `init`: some releases of NCCL crash after an
/// `init` that fails.
#[must_use]
pub const fn table_v8() -> NcclNetV8 {
    later_table!(NcclNetV8 {
        init: Some(init_v8),
        get_properties: Some(get_properties_v8),
        connect: Some(connect),
        isend: Some(super::table::isend),
        irecv: Some(super::table::irecv),
    })
}

/// The table by which NCCL 2.24 and 2.25 finds the plugin: as [`table_v8`].
#[must_use]
pub const fn table_v9() -> NcclNetV9 {
    later_table!(NcclNetV9 {
        init: Some(init_v9),
        get_properties: Some(get_properties_v9),
        connect: Some(connect),
        isend: Some(isend_v9),
        irecv: Some(irecv_v9),
        make_virtual_device: None,
    })
}

/// The table by which NCCL from 2.26 on finds the plugin: as [`table_v8`].
#[must_use]
pub const fn table_v10() -> NcclNetV10 {
    later_table!(NcclNetV10 {
        init: Some(init_v10),
        get_properties: Some(get_properties_v9),
        connect: Some(connect_v10),
        isend: Some(isend_v10),
        irecv: Some(irecv_v10),
        make_virtual_device: None,
    })
}

unsafe extern "C" fn init_v8(logger: Option<Logger>) -> NcclResult {
    guard(Entry::Init, || start::init(logger, Table::V8))
}

unsafe extern "C" fn init_v9(logger: Option<Logger>) -> NcclResult {
    guard(Entry::Init, || start::init(logger, Table::V9))
}

unsafe extern "C" fn init_v10(logger: Option<Logger>, _profiler: Option<ProfilerFn>) -> NcclResult {
    guard(Entry::Init, || start::init(logger, Table::V10))
}

unsafe extern "C" fn get_properties_v8(dev: c_int, props: *mut NetPropertiesV8) -> NcclResult {
    guard(Entry::GetProperties, || {
        not_null("getProperties", "props", props)?;
        let properties = runtime::properties(dev)
            .map_err(|_| misuse(format_args!("getProperties of device {dev}")))?;
        // SAFETY: not NULL; the ABI asks for a valid properties struct.
        unsafe { put(props, properties_v8(&properties)) };
        Ok(())
    })
}

unsafe extern "C" fn get_properties_v9(dev: c_int, props: *mut NetPropertiesV9) -> NcclResult {
    guard(Entry::GetProperties, || {
        not_null("getProperties", "props", props)?;
        let properties = runtime::properties(dev)
            .map_err(|_| misuse(format_args!("getProperties of device {dev}")))?;
        // SAFETY: not NULL; the ABI asks for a valid properties struct.
        unsafe { put(props, properties_v9(dev, &properties)) };
        Ok(())
    })
}

unsafe extern "C" fn connect_v10(
    dev: c_int,
    _config: *mut CommConfigV10,
    handle: *mut c_void,
    send_comm: *mut *mut c_void,
    send_dev_comm: *mut *mut NetDeviceHandle,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { connect(dev, handle, send_comm, send_dev_comm) }
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    ptr_type: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { register(comm, data, wide(size), ptr_type, mhandle) }
}

unsafe extern "C" fn isend_v9(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    _tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { send(comm, data, wide(size), mhandle, request) }
}

unsafe extern "C" fn isend_v10(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    _tag: c_int,
    mhandle: *mut c_void,
    _profiler_handle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { send(comm, data, wide(size), mhandle, request) }
}

unsafe extern "C" fn irecv_v9(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    _tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI asks for NULL, or an array of n elements; it is read when n is 1.
    let size = || (!sizes.is_null()).then(|| wide(unsafe { get(sizes) }));
    // SAFETY: the ABI's rules are the same.
    unsafe { receive(comm, n, data, size, mhandles, request) }
}

unsafe extern "C" fn irecv_v10(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    _profiler_handles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the ABI's rules are the same.
    unsafe { irecv_v9(comm, n, data, sizes, tags, mhandles, request) }
}
