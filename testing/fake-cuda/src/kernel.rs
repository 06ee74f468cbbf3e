#![allow(unsafe_code)]
//! What the kernels of `tcpx-unpack` do, done by the CPU. The layouts are those of
//! `tcpx-unpack/kernels/unpack.cu`.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUresult;

use crate::address_space::{Place, READ, WRITE, space};
use crate::gpu::Gpu;
use crate::module::Kernel;
use crate::pages::Pages;
use crate::status::Result;

/// Threads of a block, which the kernels ask for.
const THREADS_PER_BLOCK: u32 = 128;
/// One warp for each tile.
const TILES_PER_BLOCK: u64 = 4;
const COMPLETION_BYTES: usize = 32;
const TILE_BYTES: usize = 16;
const TILES_BY_VALUE: usize = 254;
/// Bits of an address in a tile; the length has the rest.
const ADDRESS_BITS: u32 = 57;
/// Length bits beside the source address.
const LEN_BITS_AT_SRC: u32 = 64 - ADDRESS_BITS;
/// Longest tile that the kernel has registers for.
const LONGEST_TILE: u64 = 4096;

/// One launch, with its parameters as they were when it was queued.
#[derive(Debug)]
pub(crate) struct Launch {
    gpu: &'static Gpu,
    blocks: u32,
    completion: Completion,
    tiles: Tiles,
}

/// `Completion` of the kernel.
#[derive(Debug)]
struct Completion {
    arrived: u64,
    finished: u64,
    sequence: u64,
    tiles: u32,
}

/// Where the tiles are.
#[derive(Debug)]
enum Tiles {
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
        let tiles = match kernel {
            Kernel::ByValue => {
                // SAFETY: a ByValue is a Completion and 254 tiles.
                let tiles = unsafe {
                    first.add(COMPLETION_BYTES).cast::<[[u8; TILE_BYTES]; TILES_BY_VALUE]>().read()
                };
                Tiles::ByValue(tiles.to_vec())
            }
            Kernel::FromMemory => {
                // SAFETY: this kernel has a second parameter, a pointer.
                let second = unsafe { parameters.add(1).read().cast::<[u8; 8]>().read() };
                Tiles::FromMemory(u64::from_ne_bytes(second))
            }
        };
        Ok(Self { gpu, blocks, completion, tiles })
    }

    /// Does what the kernel does. An error breaks the context.
    pub(crate) fn run(&self) -> Result<()> {
        // A warp for which there is no tile does nothing, and a tile for which there is no warp is
        // not copied.
        let warps = u64::from(self.blocks) * TILES_PER_BLOCK;
        for index in 0..u64::from(self.completion.tiles).min(warps) {
            self.copy_tile(self.tile(index)?)?;
        }
        self.report()
    }

    fn reach(&self, address: u64, bytes: usize, rights: u32) -> Result<Place> {
        space().for_kernel(self.gpu.ordinal, address, bytes, rights)
    }

    fn tile(&self, index: u64) -> Result<[u8; TILE_BYTES]> {
        match &self.tiles {
            Tiles::ByValue(tiles) => {
                tiles.get(index as usize).copied().ok_or(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
            }
            Tiles::FromMemory(start) => {
                let place = self.reach(start + index * TILE_BYTES as u64, TILE_BYTES, READ)?;
                let words = [0, 8].map(|at| place.pages.long_word(place.offset + at));
                let [Some(src), Some(dst)] = words else {
                    return Err(CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
                };
                let mut tile = [0; TILE_BYTES];
                tile[..8].copy_from_slice(&src.load(Ordering::Acquire).to_ne_bytes());
                tile[8..].copy_from_slice(&dst.load(Ordering::Acquire).to_ne_bytes());
                Ok(tile)
            }
        }
    }

    fn copy_tile(&self, tile: [u8; TILE_BYTES]) -> Result<()> {
        let (src, dst) = (number(&tile[..8]), number(&tile[8..]));
        let address = (1 << ADDRESS_BITS) - 1;
        let bytes = src >> ADDRESS_BITS | dst >> ADDRESS_BITS << LEN_BITS_AT_SRC;
        if bytes == 0 {
            return Ok(());
        }
        if bytes > LONGEST_TILE {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION);
        }
        let from = self.reach(src & address, bytes as usize, READ)?;
        let to = self.reach(dst & address, bytes as usize, WRITE)?;
        Pages::copy((&from.pages, from.offset), (&to.pages, to.offset), bytes as usize);
        Ok(())
    }

    /// What the blocks do at their end: each counts itself, and the last one tells the host.
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
            tiles: number(&bytes[24..28]) as u32,
        }
    }
}

/// A number of up to eight bytes, the least one first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
