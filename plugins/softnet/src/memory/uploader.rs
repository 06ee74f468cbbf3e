#![allow(unsafe_code)]
//! Copies of receives up to a bounce region in GPU memory. Bytes arrive in pinned pages and are
//! copied to the pages of the GPU's region that lie beside them.
//!
//! Copies run in order on a stream of the comm's own; `test` looks whether they have ended and
//! never waits for them. A chunk's entries are published when its bytes are on the GPU, so the
//! consumer sees no difference.

use std::collections::VecDeque;

use tcpx_cuda::{CudaError, CudaGpu, MarkedStream, PinnedBuffer};

use super::copies::{BusyClock, UP, WORD_BYTES, drain};
use super::piece::Piece;
use super::pooled::Pooled;
use super::region::Region;

/// Chunks for which there is room from the start.
const UNDER_WAY: usize = 64;

/// Chunk on its way up.
#[derive(Debug)]
pub(crate) struct Upload {
    /// Message that the chunk belongs to.
    pub(crate) number: u64,
    /// Offset of the chunk in its message.
    pub(crate) offset: u32,
    /// Pieces where the chunk lies, the same in both memories.
    pub(crate) pieces: Vec<Piece>,
    /// Mark behind its copies.
    mark: u64,
}

/// Copies of one receive comm.
#[derive(Debug)]
pub(crate) struct Uploader {
    gpu: CudaGpu,
    stream: MarkedStream<Pooled<PinnedBuffer>>,
    under_way: VecDeque<Upload>,
    clock: BusyClock,
}

impl Uploader {
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        Ok(Self {
            gpu: gpu.clone(),
            stream: MarkedStream::with_word(gpu, Pooled::new(gpu, WORD_BYTES)?)?,
            under_way: VecDeque::with_capacity(UNDER_WAY),
            clock: BusyClock::new(&UP),
        })
    }

    /// Begins to copy a chunk that lies in `pieces` of the region, where its pieces have to be
    /// copied. Its comm holds the pages.
    pub(crate) fn start(
        &mut self,
        region: &Region,
        number: u64,
        offset: u32,
        pieces: Vec<Piece>,
    ) -> Result<(), CudaError> {
        let to = region.consumer_address();
        let _entered = self.gpu.enter()?;
        for piece in &pieces {
            let Some(from) = region.upload_source(*piece) else { continue };
            let address = to + region.offset(*piece) as u64;
            // SAFETY:
            // - the piece lies in pages that the comm holds until the message is consumed, or until
            //   the drain at its end;
            // - the region has pinned pages beside these pages of the GPU's; the page's holder
            //   alone writes there.
            unsafe { self.stream.copy(address, from.address() as u64, from.len() as u64) }?;
            self.clock.started(from.len());
        }
        let mark = self.stream.mark()?;
        self.under_way.push_back(Upload { number, offset, pieces, mark });
        Ok(())
    }

    /// Returns the oldest chunk, once its bytes are on the GPU.
    pub(crate) fn take_done(&mut self) -> Result<Option<Upload>, CudaError> {
        let Some(oldest) = self.under_way.front() else { return Ok(None) };
        if oldest.mark > self.stream.reached()? {
            return Ok(None);
        }
        let upload = self.under_way.pop_front();
        if self.under_way.is_empty() {
            self.clock.idle();
        }
        Ok(upload)
    }

    /// Returns the message of the oldest chunk.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.under_way.front().map(|upload| upload.number)
    }

    /// Waits until nothing reads or writes pages any more; returns false when this takes too long.
    pub(crate) fn drain(&mut self) -> bool {
        drain(&self.stream)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::memory::copies::DRAIN_LIMIT;

    #[test]
    fn chunks_arrive_whole_and_in_order() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        const CHUNKS: usize = 5 * UNDER_WAY;
        let region = Region::on_gpu(&gpu, CHUNKS * 4096).expect("there is room");
        let mut uploader = Uploader::new(&gpu).expect("it opens");
        for chunk in 0..CHUNKS {
            let piece = region.piece(chunk * 4096 + chunk, 100);
            piece.write(&[chunk as u8; 100]);
            uploader.start(&region, chunk as u64, 0, vec![piece]).expect("a copy starts");
        }
        let start = Instant::now();
        for chunk in 0..CHUNKS as u64 {
            let upload = loop {
                if let Some(upload) = uploader.take_done().expect("no error") {
                    break upload;
                }
                assert!(start.elapsed() < DRAIN_LIMIT, "copies do not end");
            };
            assert_eq!(upload.number, chunk);
        }
        assert!(uploader.drain() && uploader.oldest().is_none());
        let mut bytes = [0; 100];
        for chunk in 0..CHUNKS {
            let at = region.consumer_address() + (chunk * 4096 + chunk) as u64;
            // SAFETY: the range lies in the region, and no copy is under way.
            unsafe { gpu.read(at, &mut bytes) }.expect("the region is readable");
            assert_eq!(bytes, [chunk as u8; 100], "chunk {chunk}");
        }
    }
}
