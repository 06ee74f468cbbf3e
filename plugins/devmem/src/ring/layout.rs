//! Structs of `linux/io_uring.h` and `linux/io_uring/zcrx.h` that registration takes.

/// `struct io_uring_zcrx_area_reg`: the memory for packets.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Area {
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// Written by the kernel: the token to add to an offset that is given back.
    pub(super) token: u64,
    pub(super) flags: u32,
    pub(super) dma_buf: u32,
    pub(super) reserved: [u64; 2],
}

/// `struct io_uring_region_desc`: the memory of the refill ring.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct RingRegion {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) flags: u32,
    pub(super) id: u32,
    pub(super) map_offset: u64,
    pub(super) reserved: [u64; 4],
}

/// `IORING_MEM_REGION_TYPE_USER`: the memory is the process's own.
pub(super) const OWN_MEMORY: u32 = 1;

/// `struct zcrx_event_desc`: the events that the kernel reports, and the place of its counters.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) user_data: u64,
    pub(super) kinds: u32,
    pub(super) flags: u32,
    /// Offset of the counters from the beginning of the refill ring's memory.
    pub(super) counters: u64,
    pub(super) reserved: [u64; 9],
}

/// `ZCRX_EVENT_DESC_FLAG_STATS`: requests counters from the kernel.
pub(super) const COUNT: u32 = 1;

/// Bytes of `struct zcrx_stats`: the number of copies, and the number of copied bytes.
pub(super) const COUNTERS_BYTES: usize = 16;
/// Offset of the second counter.
pub(super) const COPIED_BYTES_AT: usize = 8;

/// `struct io_uring_zcrx_offsets`: the place of the refill ring in its memory. Written by the
/// kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefillOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) entries: u32,
    pub(super) reserved: [u32; 5],
}

/// `struct io_uring_zcrx_ifq_reg`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Registration {
    pub(super) ifindex: u32,
    pub(super) queue: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) area: u64,
    pub(super) region: u64,
    pub(super) offsets: RefillOffsets,
    /// Written by the kernel: the number by which receives name the queue.
    pub(super) id: u32,
    pub(super) page_bytes: u32,
    pub(super) events: u64,
    pub(super) reserved: [u64; 2],
}

/// `struct io_uring_zcrx_rqe`: memory that is given back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefillEntry {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) padding: u32,
}

/// `IORING_REGISTER_ZCRX_IFQ`.
pub(super) const REGISTER_QUEUE: libc::c_uint = 32;
/// Bit from which on an offset has the number of its area. There is one area, number 0.
pub(super) const AREA_SHIFT: u32 = 48;

const _: () = assert!(size_of::<Area>() == 48 && size_of::<RingRegion>() == 64);
const _: () = assert!(size_of::<Registration>() == 96 && size_of::<RefillOffsets>() == 32);
const _: () = assert!(size_of::<Events>() == 96 && size_of::<RefillEntry>() == 16);
