#![allow(unsafe_code)]
//! Parameters and report of a launch, and the streams that launches run on.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, Function, PAGE_BYTES, PinnedBuffer, Stream};

use super::reach::Reach;
use super::tile::Tile;

/// Tiles that fit into the kernel's parameters. Every driver takes 4 KiB of parameters.
pub(super) const TILES_BY_VALUE: usize = 254;

/// Streams that launches take turns on. One launch starts while the previous launch still drains.
pub(super) const STREAMS: usize = 4;

const THREADS_PER_BLOCK: u32 = 128;
const WARPS_PER_BLOCK: u32 = THREADS_PER_BLOCK / 32;

/// Distance of the words: a cache line each, so that streams don't disturb one another.
const WORD_STRIDE: u64 = 128;

/// `Completion` of the kernel.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Completion {
    arrived: u64,
    finished: u64,
    sequence: u64,
    entries: u32,
    reach: u32,
}

/// `ByValue` of the kernel.
#[repr(C, align(16))]
struct ByValue {
    completion: Completion,
    tiles: [Tile; TILES_BY_VALUE],
}

const _: () = {
    assert!(size_of::<Completion>() == 32);
    assert!(std::mem::offset_of!(Completion, entries) == 24);
    assert!(std::mem::offset_of!(ByValue, tiles) == 32);
    assert!(size_of::<ByValue>() == 4096);
    assert!(STREAMS as u64 * WORD_STRIDE <= PAGE_BYTES);
};

/// Kernel in its two forms.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub(super) by_value: Function,
    pub(super) from_memory: Function,
}

/// Memory through which launches report their end. It must outlive them.
pub(super) struct Reports {
    /// Counter of blocks for each stream; the kernel leaves it at 0.
    arrived: DeviceBuffer,
    /// Number of the last finished launch of each stream.
    finished: PinnedBuffer,
}

impl Reports {
    pub(super) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        let arrived = DeviceBuffer::new(gpu, PAGE_BYTES)?;
        arrived.fill(0)?;
        Ok(Self { arrived, finished: PinnedBuffer::new(gpu, PAGE_BYTES)? })
    }

    /// Returns the number of the last launch on stream `stream` whose bytes are in place. Costs one
    /// load.
    pub(super) fn finished(&self, stream: usize) -> u64 {
        debug_assert!(stream < STREAMS);
        let offset = stream * WORD_STRIDE as usize;
        // SAFETY: the word lies inside the buffer (STREAMS * WORD_STRIDE <= PAGE_BYTES), aligned to
        // 8 bytes. The host only ever reads it, atomically, and the GPU writes it whole.
        let word = unsafe { AtomicU64::from_ptr(self.finished.as_ptr().add(offset).cast()) };
        // Acquire: the host uses the bytes only after this load.
        word.load(Ordering::Acquire)
    }

    fn completion(&self, stream: usize, sequence: u64, work: LaunchSize) -> Completion {
        let offset = stream as u64 * WORD_STRIDE;
        Completion {
            arrived: self.arrived.address() + offset,
            finished: self.finished.address() + offset,
            sequence,
            entries: work.entries,
            reach: work.reach.log2(),
        }
    }
}

/// Size of a launch: at most 2^16 entries.
#[derive(Clone, Copy)]
pub(super) struct LaunchSize {
    pub(super) entries: u32,
    pub(super) reach: Reach,
}

impl LaunchSize {
    /// Returns the number of blocks. A launch without entries still reports, which takes one block.
    fn blocks(self) -> u32 {
        (self.entries << self.reach.log2()).div_ceil(WARPS_PER_BLOCK).max(1)
    }
}

/// Parameter block of small launches, filled anew for each launch.
pub(super) struct Parameters(Box<ByValue>);

impl Parameters {
    pub(super) fn new() -> Self {
        let tiles = [Tile::default(); TILES_BY_VALUE];
        Self(Box::new(ByValue { completion: Completion::default(), tiles }))
    }

    /// Returns the room for the entries of the next [`launch_by_value`].
    pub(super) fn tiles(&mut self) -> &mut [Tile; TILES_BY_VALUE] {
        &mut self.0.tiles
    }
}

/// Launches the kernel over the first entries of `parameters`.
///
/// # Safety
/// - `kernels` are those of the image, and live until the launch has ended, as do `reports`;
/// - there are no more than [`TILES_BY_VALUE`] entries, of this reach, and each copies between
///   memories that stay valid, and unused by others, until the launch has ended.
pub(super) unsafe fn launch_by_value(
    kernels: Kernels,
    stream: &Stream,
    reports: &Reports,
    (number, sequence): (usize, u64),
    parameters: &mut Parameters,
    work: LaunchSize,
) -> Result<(), CudaError> {
    parameters.0.completion = reports.completion(number, sequence, work);
    let block: *mut c_void = (&raw mut *parameters.0).cast();
    // SAFETY: the kernel takes one ByValue, whose layout is asserted on both sides; the caller
    // vouches for the tiles; the report words belong to this stream, whose launches run in order.
    unsafe { kernels.by_value.launch(stream, work.blocks(), THREADS_PER_BLOCK, &mut [block]) }
}

/// Launches the kernel over entries at `address`, which the GPU can read.
///
/// # Safety
/// As for [`launch_by_value`], for any number of entries. The entries do not change until the
/// launch has ended.
pub(super) unsafe fn launch_from_memory(
    kernels: Kernels,
    stream: &Stream,
    reports: &Reports,
    (number, sequence): (usize, u64),
    mut address: u64,
    work: LaunchSize,
) -> Result<(), CudaError> {
    let mut completion = reports.completion(number, sequence, work);
    let parameters: &mut [*mut c_void] =
        &mut [(&raw mut completion).cast(), (&raw mut address).cast()];
    // SAFETY: the kernel takes a Completion and a pointer, 8 bytes on both sides; the caller
    // vouches for the tiles; the report words belong to this stream, whose launches run in order.
    unsafe { kernels.from_memory.launch(stream, work.blocks(), THREADS_PER_BLOCK, parameters) }
}
