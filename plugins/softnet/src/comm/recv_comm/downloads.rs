//! Receives into host memory of bytes that a NIC has put into a GPU's memory. Chunks are copied
//! down to pinned pages, in the order in which they have come, and from there to where they were
//! posted.

use std::collections::VecDeque;

use tcpx_cuda::{CudaError, CudaGpu};

use crate::comm::chunk::Chunk;
use crate::memory::{Piece, Region, Staged, Stager};
use crate::nic_memory::HeldFragments;

/// Most bytes that one call of `test` copies on, except for one chunk: its caller must get to other
/// comms in time.
const STEP_BYTES: usize = 256 << 10;

/// Chunk whose bytes are on their way down.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) number: u64,
    /// Offset of the chunk in its message.
    pub(super) offset: u32,
    pub(super) lane: usize,
    /// Part of the region that the chunk holds until it is copied.
    pub(super) held: HeldFragments,
    /// Pieces of the region where the chunk lies.
    pub(super) pieces: Vec<Piece>,
}

/// Copies of one receive comm.
#[derive(Debug)]
pub(super) struct Downloads {
    stager: Box<Stager>,
    /// Copies under way, oldest first: as many as the stager has.
    under_way: VecDeque<Download>,
    /// Chunks that wait for a slot, with their lanes.
    waiting: VecDeque<(usize, Chunk)>,
}

impl Downloads {
    /// Makes everything that copies of chunks of at most `chunk_bytes` need.
    pub(super) fn new(gpu: &CudaGpu, chunk_bytes: u32) -> Result<Self, CudaError> {
        Ok(Self {
            stager: Box::new(Stager::for_receives(gpu, chunk_bytes)?),
            under_way: VecDeque::new(),
            waiting: VecDeque::new(),
        })
    }

    /// Queues a chunk for host memory that has come.
    pub(super) fn push(&mut self, lane: usize, chunk: Chunk) {
        self.waiting.push_back((lane, chunk));
    }

    /// Waits until no copy is under way. Returns false when this takes too long: then the memory
    /// that the copies read is kept.
    pub(super) fn end(self) -> bool {
        let is_over = self.stager.end();
        if !is_over {
            self.under_way.into_iter().for_each(|download| download.held.leak());
        }
        is_over
    }

    /// Returns whether no copy waits or is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }

    /// Starts copies that find a slot, and calls `copied` with each chunk that is down, and its
    /// place.
    ///
    /// # Errors
    /// The driver's error, with the message that it is about.
    pub(super) fn run(
        &mut self,
        region: &Region,
        mut copied: impl FnMut(Download, Piece),
    ) -> Result<(), (u64, CudaError)> {
        self.start(region)?;
        let mut bytes = 0;
        while bytes < STEP_BYTES
            && let Some(oldest) = self.under_way.front()
        {
            let ready = self.stager.ready().map_err(|error| (oldest.number, error))?;
            let Some(Staged { memory, .. }) = ready else { break };
            bytes += memory.len();
            if let Some(chunk) = self.under_way.pop_front() {
                copied(chunk, memory);
            }
            self.stager.take();
            self.stager.release(memory);
        }
        self.start(region)
    }

    fn start(&mut self, region: &Region) -> Result<(), (u64, CudaError)> {
        let beside = |piece| region.upload_source(piece);
        while let Some((lane, chunk)) = self.waiting.pop_front() {
            let (number, offset) = (chunk.number, chunk.offset);
            match self.stager.start_all(number, offset, &chunk.pieces, beside) {
                Ok(true) => {
                    let Chunk { held, pieces, .. } = chunk;
                    self.under_way.push_back(Download { number, offset, lane, held, pieces });
                }
                Ok(false) => {
                    self.waiting.push_front((lane, chunk));
                    break;
                }
                Err(error) => return Err((number, error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use tcpx_sys::UNPACK_PAGE_BYTES;

    use super::*;
    use crate::memory::NicGpuMemory;

    const OF_NIC: usize = 2 << 20;

    #[test]
    fn chunks_come_down_in_their_order_also_what_lies_behind_the_dma_buf() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let bytes: Vec<u8> = (0..OF_NIC).map(|at| (at % 253) as u8).collect();
        let spare = 4 * UNPACK_PAGE_BYTES;
        let memory = NicGpuMemory::new(&gpu, OF_NIC as u64, spare as u64).expect("there is room");
        memory.fill_for_tests(&bytes);
        let region = Region::NicOnGpu(Arc::new(memory));
        region.write(region.piece(OF_NIC, 100), &[0xaa; 100]);
        // The last bytes that the NIC has brought, and those behind them, which it has not brought.
        let pieces = |number: usize| {
            let last = region.piece(OF_NIC - 10 - number, 10 + number);
            vec![region.piece(number, 3), last, region.piece(OF_NIC, 7), region.piece(9, 1)]
        };
        const CHUNKS: usize = 100;
        let mut downloads = Downloads::new(&gpu, 512 << 10).expect("it opens");
        for number in 0..CHUNKS {
            downloads.push(number % 3, Chunk::new(number as u64, 5, pieces(number)));
        }
        let (start, mut came) = (Instant::now(), 0);
        while !downloads.is_idle() {
            assert!(start.elapsed() < Duration::from_secs(60), "copies do not end");
            let outcome = downloads.run(&region, |chunk, at| {
                let Download { number, offset, lane, pieces: had, .. } = chunk;
                assert_eq!((number, offset, lane), (came as u64, 5, came % 3));
                assert_eq!(had, pieces(came));
                let mut found = vec![0_u8; at.len()];
                at.read_for_tests(&mut found);
                let last = &bytes[OF_NIC - 10 - came..];
                let expected = [&bytes[came..came + 3], last, &[0xaa; 7], &bytes[9..10]].concat();
                assert_eq!(found, expected, "chunk {came}");
                came += 1;
            });
            outcome.expect("the driver copies");
        }
        assert_eq!(came, CHUNKS);
    }
}
