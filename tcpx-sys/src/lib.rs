//! Raw interface of an ncclNet v7 plugin, as `libnccl-net-tcpx.so` exports it.
//!
//! For whoever drives such a plugin (`tcpx-core`, the conformance checks) or is one (`tcpx-softnet`).
//! Types match the C ABI byte for byte; every size and offset is asserted at compile time and compared with a
//! C compiler's view in `tests/abi_probe.rs`.
//!
//! This crate holds no policy: it never retries, never waits, never interprets a return code. It opens a plugin by
//! path ([`Plugin::load`]) and forwards the plugin's log lines to `tracing` ([`log_callback`]).

mod load;
mod logger;
mod table;
mod types;

pub use load::{Entries, LoadError, Plugin, SYMBOL};
pub use logger::{log_callback, set_max_log_level};
pub use table::{
    AcceptFn, CloseFn, ConnectFn, DeregMrFn, DevicesFn, GetDeviceMrFn, GetPropertiesFn, IflushFn,
    InitFn, IrecvConsumedFn, IrecvFn, IsendFn, ListenFn, Logger, NcclNetV7, RegMrDmaBufFn, RegMrFn,
    TestFn,
};
pub use types::{
    HANDLE_BYTES, LoadMeta, LogLevel, MAX_REQUESTS, MAX_UNPACK_ENTRIES, NCCL_MAX_REQUESTS,
    NET_DEVICE_HOST, NET_DEVICE_UNPACK, NcclResult, NetDeviceHandle, NetHandle, NetProperties,
    NetUnpackMeta, PTR_CUDA, PTR_DMABUF, PTR_HOST, UNPACK_PAGE_BYTES, UNPACK_QUEUE_DEPTH,
    UNPACK_SLICE_BYTES, UNPACK_VERSION, UnpackNetDeviceHandle, subsystem,
};
