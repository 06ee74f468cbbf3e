//! Raw interface of an ncclNet v7 plugin, as `libnccl-net-tcpx.so` exports it.
//!
//! Users drive such a plugin (`tcpx-core`, the conformance checks) or are one (`tcpx-softnet`).
//! Types match the C ABI byte for byte. Every size and offset is asserted at compile time, and
//! compared with a C compiler's view in `tests/suite/abi_probe.rs`.
//!
//! A plugin of this project has three more symbols. One reports whether a comm is alive:
//! [`CommHealthV1`], [`Plugin::health`]. One reports what to wait for: [`CommPollV1`],
//! [`Plugin::readiness`]. One has a comm encrypted: [`CommEncryptionV1`], [`Plugin::encryption`].
//!
//! NCCL looks for newer tables first, so a plugin for NCCL has those as well: [`NcclNetV8`],
//! [`NcclNetV9`], [`NcclNetV10`].
//!
//! This crate holds no policy: it never retries, never waits, never interprets a return code. It
//! opens a plugin by path ([`Plugin::load`]) and forwards the plugin's log lines to `tracing`
//! ([`log_callback`]). It detects a process that was forked after a plugin was started
//! ([`is_forked`]), names the processors that a thread runs on ([`CpuSet`]), and has connections
//! within a host sent without pacing ([`unpace_within_host`]).
//!
//! ```
//! use std::path::Path;
//! use tcpx_sys::{LoadError, Plugin, log_callback};
//!
//! /// Starts the plugin at `path` and says how many NICs it found.
//! ///
//! /// # Safety
//! /// The file is what it claims to be, and no plugin was started in this process before.
//! unsafe fn start(path: &Path) -> Result<i32, LoadError> {
//!     // SAFETY: the caller's word for the file.
//!     let plugin = unsafe { Plugin::load(path, &["GPUDirectTCPX_v7", "TCPXSoft_v7"]) }?;
//!     let (init, devices) = (plugin.entries().init, plugin.entries().devices);
//!     let mut count = 0;
//!     // SAFETY: this is the first init in the process, and the logger lives for ever.
//!     let code = unsafe { init(Some(log_callback())) };
//!     if code.is_success() {
//!         // SAFETY: the plugin is initialised, and the output is a live variable.
//!         unsafe { devices(&raw mut count) };
//!     }
//!     Ok(count)
//! }
//!
//! // SAFETY: nothing is started, for there is no such file.
//! let error = unsafe { start(Path::new("/nonexistent/libnccl-net.so")) }.unwrap_err();
//! assert!(matches!(error, LoadError::Missing { .. }));
//! ```

mod addition;
mod congestion;
mod cpu_set;
mod encryption;
mod health;
mod later_tables;
mod load;
mod logger;
mod printable;
mod process;
mod readiness;
mod table;
mod types;

pub use congestion::unpace_within_host;
pub use cpu_set::{CpuListError, CpuSet};
pub use encryption::{
    COMM_SECRET_BYTES, CommEncryptionV1, ConnectEncryptedFn, ENCRYPTION_SYMBOL, EncryptListenFn,
    EncryptionEntries,
};
pub use health::{CheckCommFn, CommHealthV1, HEALTH_SYMBOL, HealthEntries, SetPeerTimeoutFn};
pub use later_tables::{
    CommConfigV10, ConnectV10Fn, GetPropertiesV8Fn, GetPropertiesV9Fn, InitV10Fn, IrecvV9Fn,
    IrecvV10Fn, IsendV9Fn, IsendV10Fn, MAX_DEVICES_OF_VIRTUAL, MakeVirtualDeviceFn, NcclNetV8,
    NcclNetV9, NcclNetV10, NetPropertiesV8, NetPropertiesV9, ProfilerFn, RegMrV8Fn, VirtualDevice,
};
pub use load::{Entries, LoadError, Plugin, SYMBOL};
pub use logger::{log_callback, set_max_log_level};
pub use printable::printable;
pub use process::{ForkGuard, Forked, is_forked, without_forks};
pub use readiness::{
    CommDescriptor, CommDescriptorsFn, CommPollV1, MAX_COMM_DESCRIPTORS, NeedsCallFn,
    READINESS_SYMBOL, ReadinessEntries,
};
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
