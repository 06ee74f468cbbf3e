//! Constants and structs of the v7 ABI. Sizes and offsets are those of the plugin's own headers
//! (x86-64, 3.1.9): docs/plugin-contract.md has them in §1.3 to §1.6.

use core::ffi::{c_char, c_int, c_void};
use core::fmt;
use core::mem::{align_of, offset_of, size_of};

/// Bytes of the connect handle that `listen` fills and `connect` takes.
pub const HANDLE_BYTES: usize = 128;
/// Requests one comm can hold: sends until `test` says done, receives until `irecvConsumed`.
pub const MAX_REQUESTS: usize = 16;
/// NCCL's own request limit (`NCCL_NET_MAX_REQUESTS`), twice what the plugin has.
pub const NCCL_MAX_REQUESTS: usize = 32;
/// Pointer type: host memory.
pub const PTR_HOST: c_int = 1;
/// Pointer type: device memory.
pub const PTR_CUDA: c_int = 2;
/// Pointer type: dma-buf. The plugin does not support it.
pub const PTR_DMABUF: c_int = 4;
/// `netDeviceType`: receives land where they were posted.
pub const NET_DEVICE_HOST: c_int = 0;
/// `netDeviceType`: receives land scattered in a bounce buffer and are unpacked by the consumer.
pub const NET_DEVICE_UNPACK: c_int = 1;
/// `netDeviceVersion` of the unpack layout described by [`NetUnpackMeta`].
pub const UNPACK_VERSION: c_int = 0x7;
/// Slots of the unpack queue; request k uses slot k mod 16.
pub const UNPACK_QUEUE_DEPTH: usize = 16;
/// Entries one slot of the unpack queue holds.
pub const MAX_UNPACK_ENTRIES: usize = 2048;
/// Nominal bytes of one slice.
pub const UNPACK_SLICE_BYTES: usize = 4 << 20;
/// Page size of the bounce buffer; no fragment crosses a page.
pub const UNPACK_PAGE_BYTES: usize = 4096;

/// Log subsystem bits that come with every log line.
pub mod subsystem {
    /// Start-up.
    pub const INIT: u64 = 1;
    /// Point to point.
    pub const P2P: u64 = 4;
    /// Network plugins.
    pub const NET: u64 = 16;
    /// Environment variables.
    pub const ENV: u64 = 128;
    /// Registrations.
    pub const REG: u64 = 8192;
    /// Every subsystem.
    pub const ALL: u64 = u64::MAX;
}

/// `ncclResult_t`. A plain number: values a plugin invents stay as they came.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NcclResult(pub c_int);

impl NcclResult {
    /// The call succeeded.
    pub const SUCCESS: Self = Self(0);
    /// A CUDA call failed.
    pub const UNHANDLED_CUDA_ERROR: Self = Self(1);
    /// A system call failed, or the peer is gone.
    pub const SYSTEM_ERROR: Self = Self(2);
    /// The plugin refused the call: wrong order, no free request, bad argument.
    pub const INTERNAL_ERROR: Self = Self(3);
    /// An argument was invalid.
    pub const INVALID_ARGUMENT: Self = Self(4);
    /// The call was not legal now.
    pub const INVALID_USAGE: Self = Self(5);
    /// The remote end failed.
    pub const REMOTE_ERROR: Self = Self(6);
    /// Not finished. The plugin keeps this one to itself.
    pub const IN_PROGRESS: Self = Self(7);

    /// Whether the call succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// The field's name for this code, or `"unknown"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "ncclSuccess",
            1 => "ncclUnhandledCudaError",
            2 => "ncclSystemError",
            3 => "ncclInternalError",
            4 => "ncclInvalidArgument",
            5 => "ncclInvalidUsage",
            6 => "ncclRemoteError",
            7 => "ncclInProgress",
            _ => "unknown",
        }
    }
}

impl fmt::Debug for NcclResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

impl fmt::Display for NcclResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// `ncclDebugLogLevel`. A plain number for the same reason as [`NcclResult`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(pub c_int);

impl LogLevel {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Version lines.
    pub const VERSION: Self = Self(1);
    /// Warnings, which is also how the plugin reports errors.
    pub const WARN: Self = Self(2);
    /// Progress of set-up.
    pub const INFO: Self = Self(3);
    /// Last words.
    pub const ABORT: Self = Self(4);
    /// Every call.
    pub const TRACE: Self = Self(5);
}

/// The 128 bytes that `listen` fills and `connect` takes.
///
/// A value: it may be copied to the peer. `connect` keeps its state at byte 80 of the buffer it is
/// given, so the same buffer must be passed to every poll of one connection. Aligned to 8 because
/// of that pointer.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetHandle(pub [u8; HANDLE_BYTES]);

impl NetHandle {
    /// A zeroed handle, as `listen` wants it: the plugin leaves its padding untouched.
    #[must_use]
    pub const fn zeroed() -> Self {
        Self([0; HANDLE_BYTES])
    }
}

impl fmt::Debug for NetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetHandle(")?;
        for byte in &self.0[..28] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

/// `ncclNetProperties_v7_t`. The strings belong to the plugin and are never freed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NetProperties {
    /// Interface name.
    pub name: *const c_char,
    /// Real path under `/sys`; NULL for virtual interfaces.
    pub pci_path: *const c_char,
    /// Unique id of the NIC.
    pub guid: u64,
    /// Bits of [`PTR_HOST`], [`PTR_CUDA`], [`PTR_DMABUF`].
    pub ptr_support: c_int,
    /// Port speed in Mbit/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Latency in µs, 0 when unknown.
    pub latency: f32,
    /// Comms the NIC can hold.
    pub max_comms: c_int,
    /// Receives one `irecv` may group; 1 here.
    pub max_recvs: c_int,
    /// [`NET_DEVICE_HOST`] or [`NET_DEVICE_UNPACK`].
    pub net_device_type: c_int,
    /// Version of the device layout; [`UNPACK_VERSION`].
    pub net_device_version: c_int,
}

/// `ncclNetDeviceHandle_v7_t`, filled by the `accept` that returns the comm.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NetDeviceHandle {
    /// [`NET_DEVICE_UNPACK`].
    pub net_device_type: c_int,
    /// [`UNPACK_VERSION`].
    pub net_device_version: c_int,
    /// Address of an [`UnpackNetDeviceHandle`] in device memory.
    pub handle: *mut c_void,
    /// Bytes behind `handle`.
    pub size: usize,
    /// Whether `test` must be called for progress.
    pub needs_proxy_progress: c_int,
}

/// One entry of the unpack queue: `bounce[src_off..][..len]` belongs at `dst[dst_off..][..len]`.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadMeta {
    /// Byte offset in the bounce buffer.
    pub src_off: u32,
    /// Bytes.
    pub len: u32,
    /// Byte offset from the start of the message.
    pub dst_off: u64,
}

/// The public unpack queue of one receive comm. `cnt[slot]` and `mem[slot]` are final once `test`
/// said done and until `irecvConsumed`; before that `cnt` still holds the value of request k − 16.
#[repr(C)]
#[derive(Debug)]
pub struct NetUnpackMeta {
    /// Entries by slot.
    pub mem: [[LoadMeta; MAX_UNPACK_ENTRIES]; UNPACK_QUEUE_DEPTH],
    /// Number of entries by slot.
    pub cnt: [u64; UNPACK_QUEUE_DEPTH],
}

/// Struct that [`NetDeviceHandle::handle`] points to. Lives in device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UnpackNetDeviceHandle {
    /// The queue.
    pub meta: *mut NetUnpackMeta,
    /// Start of the bounce buffer.
    pub bounce_buf: *mut c_void,
    /// The consumer's own counter, 2^64 − 1 at the start: incremented before each use.
    pub head: u64,
}

macro_rules! assert_layout {
    (
        $type:ty, size $size:literal, align $align:literal,
        { $($field:ident $offset:literal),* $(,)? }
    ) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            assert!(align_of::<$type>() == $align);
            $(assert!(offset_of!($type, $field) == $offset);)*
        };
    };
}
pub(crate) use assert_layout;

assert_layout!(NcclResult, size 4, align 4, {});
assert_layout!(NetHandle, size 128, align 8, {});
assert_layout!(NetProperties, size 56, align 8, {
    name 0, pci_path 8, guid 16, ptr_support 24, speed 28, port 32, latency 36, max_comms 40,
    max_recvs 44, net_device_type 48, net_device_version 52,
});
assert_layout!(NetDeviceHandle, size 32, align 8, {
    net_device_type 0, net_device_version 4, handle 8, size 16, needs_proxy_progress 24,
});
assert_layout!(LoadMeta, size 16, align 16, { src_off 0, len 4, dst_off 8 });
assert_layout!(NetUnpackMeta, size 524_416, align 16, { mem 0, cnt 524_288 });
assert_layout!(UnpackNetDeviceHandle, size 24, align 8, { meta 0, bounce_buf 8, head 16 });
