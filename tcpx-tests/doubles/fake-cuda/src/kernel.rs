#![allow(unsafe_code)]
//! The kernels of `tcpx-unpack`, done by the CPU. The layouts are those of
//! `tcpx-unpack/kernels/unpack.cu`.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUresult;

use crate::address_space::{MemoryLocation, READ, WRITE, space};
use crate::gpu::Gpu;
use crate::module::Kernel;
use crate::pages::Pages;
use crate::status::Result;

/// Threads of a block, which the kernels ask for.
const THREADS_PER_BLOCK: u32 = 128;
const WARPS_PER_BLOCK: u64 = 4;
const COMPLETION_BYTES: usize = 32;
const TILE_BYTES: usize = 16;
const TILES_BY_VALUE: usize = 254;
/// Bits of an address in a tile; the length has the rest.
const ADDRESS_BITS: u32 = 57;
/// Length bits beside the source address.
const LEN_BITS_AT_SRC: u32 = 64 - ADDRESS_BITS;
/// Longest tile that the kernel has registers for, and each tile of a span.
const LONGEST_TILE: u64 = 4096;
/// In the word of an entry: the other bits count the tiles of a span.
const IS_SPAN: u64 = 1 << 13;

/// One launch, with its parameters as they were when it was queued.
#[derive(Debug)]
pub(crate) struct Launch {
    gpu: &'static Gpu,
    blocks: u32,
    completion: Completion,
    entries: Entries,
}

/// `Completion` of the kernel.
#[derive(Debug)]
struct Completion {
    arrived: u64,
    finished: u64,
    sequence: u64,
    entries: u32,
    /// As many warps look at each entry; the logarithm of a power of two.
    reach: u32,
}

/// Where the entries are.
#[derive(Debug)]
enum Entries {
    ByValue(Vec<[u8; TILE_BYTES]>),
    /// At an address that the GPU reads.
    FromMemory(u64),
}

impl Launch {
    /// Copies the parameters, as the driver does before a launch returns.
    ///
    /// # Safety
    /// `parameters` points to as many pointers as the kernel has parameters, each to a value of the
    /// parameter's size.
    pub(crate) unsafe fn new(
        gpu: &'static Gpu,
        kernel: Kernel,
        (blocks, threads): (u32, u32),
        parameters: *const *const c_void,
    ) -> Result<Self> {
        if parameters.is_null() || blocks == 0 || threads != THREADS_PER_BLOCK {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: each kernel has at least one parameter, which begins with a Completion.
        let first = unsafe { parameters.read() }.cast::<u8>();
        // SAFETY: as above; both structs are larger than these bytes, and of any alignment.
        let completion = unsafe { first.cast::<[u8; COMPLETION_BYTES]>().read() };
        let completion = Completion::of(&completion);
        let entries = match kernel {
            Kernel::ByValue => {
                // SAFETY: a ByValue is a Completion and 254 entries.
                let entries = unsafe {
                    first.add(COMPLETION_BYTES).cast::<[[u8; TILE_BYTES]; TILES_BY_VALUE]>().read()
                };
                Entries::ByValue(entries.to_vec())
            }
            Kernel::FromMemory => {
                // SAFETY: this kernel has a second parameter, a pointer.
                let second = unsafe { parameters.add(1).read().cast::<[u8; 8]>().read() };
                Entries::FromMemory(u64::from_ne_bytes(second))
            }
        };
        Ok(Self { gpu, blocks, completion, entries })
    }

    /// Does what the kernel does. An error breaks the context.
    pub(crate) fn run(&self) -> Result<()> {
        // A warp for which there is no entry does nothing, and a tile for which there is no warp is
        // not copied.
        let warps = u64::from(self.blocks) * WARPS_PER_BLOCK;
        let Completion { entries, reach, .. } = self.completion;
        for index in 0..u64::from(entries) {
            let first = index << reach;
            let own = warps.saturating_sub(first).min(1 << reach);
            if own > 0 {
                self.copy_entry(self.entry(index)?, own)?;
            }
        }
        self.report()
    }

    fn reach(&self, address: u64, bytes: usize, rights: u32) -> Result<MemoryLocation> {
        space().for_kernel(self.gpu.ordinal, address, bytes, rights)
    }

    fn entry(&self, index: u64) -> Result<[u8; TILE_BYTES]> {
        match &self.entries {
            Entries::ByValue(entries) => {
                entries.get(index as usize).copied().ok_or(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
            }
            Entries::FromMemory(start) => {
                let place = self.reach(start + index * TILE_BYTES as u64, TILE_BYTES, READ)?;
                let words = [0, 8].map(|at| place.pages.long_word(place.offset + at));
                let [Some(src), Some(dst)] = words else {
                    return Err(CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
                };
                let mut entry = [0; TILE_BYTES];
                entry[..8].copy_from_slice(&src.load(Ordering::Acquire).to_ne_bytes());
                entry[8..].copy_from_slice(&dst.load(Ordering::Acquire).to_ne_bytes());
                Ok(entry)
            }
        }
    }

    /// What the `warps` warps of one entry copy.
    fn copy_entry(&self, entry: [u8; TILE_BYTES], warps: u64) -> Result<()> {
        let (src, dst) = (number(&entry[..8]), number(&entry[8..]));
        let address = (1 << ADDRESS_BITS) - 1;
        let (from, to) = (src & address, dst & address);
        let word = src >> ADDRESS_BITS | dst >> ADDRESS_BITS << LEN_BITS_AT_SRC;
        if word & IS_SPAN == 0 {
            return self.copy_tile(from, to, word);
        }
        for part in 0..(word - IS_SPAN).min(warps) {
            let offset = part * LONGEST_TILE;
            self.copy_tile(from + offset, to + offset, LONGEST_TILE)?;
        }
        Ok(())
    }

    fn copy_tile(&self, src: u64, dst: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if bytes > LONGEST_TILE {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION);
        }
        let from = self.reach(src, bytes as usize, READ)?;
        let to = self.reach(dst, bytes as usize, WRITE)?;
        Pages::copy((&from.pages, from.offset), (&to.pages, to.offset), bytes as usize);
        Ok(())
    }

    /// What the blocks do at their end: each counts itself, and the last one notifies the host.
    fn report(&self) -> Result<()> {
        let Completion { arrived, finished, sequence, .. } = self.completion;
        let misaligned = CUresult::CUDA_ERROR_MISALIGNED_ADDRESS;
        let place = self.reach(arrived, 4, WRITE)?;
        let counter = place.pages.word(place.offset).ok_or(misaligned)?;
        let before = counter.fetch_add(self.blocks, Ordering::AcqRel);
        if before != 0 {
            // The block that is the last one has counted itself in the middle.
            return Ok(());
        }
        counter.store(0, Ordering::Release);
        let place = self.reach(finished, 8, WRITE)?;
        place.pages.long_word(place.offset).ok_or(misaligned)?.store(sequence, Ordering::Release);
        Ok(())
    }
}

impl Completion {
    fn of(bytes: &[u8; COMPLETION_BYTES]) -> Self {
        Self {
            arrived: number(&bytes[..8]),
            finished: number(&bytes[8..16]),
            sequence: number(&bytes[16..24]),
            entries: number(&bytes[24..28]) as u32,
            reach: number(&bytes[28..32]) as u32,
        }
    }
}

/// A number of up to eight bytes, the least one first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
