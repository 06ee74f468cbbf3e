#![allow(unsafe_code)]
//! One unpacker over one bounce buffer and one destination, with rotation through both.

use tcpx_unpack::{Ticket, Unpack, UnpackError, UnpackJob};

use crate::layout::Chunks;
use crate::measure::Candidate;

/// Addresses of the two memories.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) bounce: u64,
    pub(crate) dst: u64,
    /// Size of each in bytes.
    pub(crate) bytes: u64,
}

/// Submits `at_once` chunks at a time.
pub(crate) struct UnpackCandidate<'bench> {
    unpack: Box<dyn Unpack>,
    chunks: &'bench Chunks,
    ends: Ends,
    at_once: usize,
    jobs: Vec<UnpackJob<'bench>>,
    last: Ticket,
}

impl<'bench> UnpackCandidate<'bench> {
    /// # Safety
    /// Both memories are valid, and have no other user, for as long as this lives.
    pub(crate) unsafe fn new(
        unpack: Box<dyn Unpack>,
        chunks: &'bench Chunks,
        ends: Ends,
        at_once: usize,
    ) -> Self {
        Self { unpack, chunks, ends, at_once, jobs: Vec::new(), last: Ticket::NONE }
    }
}

impl Candidate for UnpackCandidate<'_> {
    fn submit(&mut self, index: usize) {
        let (chunks, chunk_bytes) = (self.chunks, self.chunks.chunk_bytes);
        self.jobs.clear();
        for chunk in index * self.at_once..(index + 1) * self.at_once {
            let chunk = chunk % chunks.len();
            self.jobs.push(
                UnpackJob::new(chunks.descriptors(chunk))
                    .with_bounce(self.ends.bounce, self.ends.bytes)
                    .with_destination(self.ends.dst + chunk as u64 * chunk_bytes, chunk_bytes),
            );
        }
        self.last = loop {
            // SAFETY: new()'s caller vouches for the memories. Chunks that come round again while
            // an earlier round is under way copy the same bytes to the same places.
            match unsafe { self.unpack.submit(&self.jobs) } {
                Err(UnpackError::Busy) => std::hint::spin_loop(),
                outcome => break outcome.expect("a submission was refused"),
            }
        };
    }

    fn finish(&mut self) {
        while self.unpack.poll().expect("unpacking failed") < self.last {
            std::hint::spin_loop();
        }
    }
}
