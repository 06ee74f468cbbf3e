//! What a receive comm does with bytes that have come: it counts them, and writes their entries.
//! Where the bounce region is in GPU memory, the bytes are copied there first.

use super::RecvComm;
use crate::comm::recv_request::{Destination, RecvRequest};
use crate::failure::Failure;
use crate::memory::{Piece, cuda_failure};

impl RecvComm {
    pub(super) fn receive_inline(&mut self, number: u64, size: u32) {
        let mut pieces = self.spare_pieces.pop().unwrap_or_default();
        if let Some(receive) = self.requests.ring.get_mut(number) {
            receive.chunk_memory(self.bounce, 0, size as usize, &mut pieces);
            let mut payload = &self.input.bytes()[..size as usize];
            for piece in &pieces {
                let (now, later) = payload.split_at(piece.len().min(payload.len()));
                piece.write(now);
                payload = later;
            }
        }
        self.input.consume(size as usize);
        self.arrived(number, 0, pieces);
    }

    pub(super) fn harvest(&mut self) {
        let mut harvested = std::mem::take(&mut self.harvested);
        self.lanes.harvest(|chunk| harvested.push(chunk));
        for chunk in harvested.drain(..) {
            if chunk.failed {
                self.requests.fail(chunk.number, Failure::System);
                self.spare(chunk.pieces);
            } else {
                self.arrived(chunk.number, chunk.offset, chunk.pieces);
            }
        }
        self.harvested = harvested;
    }

    /// A chunk has arrived in `pieces`. It is finished, or must be copied to the GPU first.
    fn arrived(&mut self, number: u64, offset: u32, pieces: Vec<Piece>) {
        let in_pages = |receive: &RecvRequest| matches!(receive.destination, Destination::Device);
        match &mut self.uploader {
            Some(uploader) if self.requests.ring.get(number).is_some_and(in_pages) => {
                if let Err(error) = uploader.start(self.bounce.region(), number, offset, pieces) {
                    self.requests.fail(number, cuda_failure("test", &error));
                }
            }
            _ => self.collect(number, offset, pieces),
        }
    }

    /// Collects chunks that have reached the GPU.
    pub(super) fn take_uploads(&mut self) {
        while let Some(uploader) = &mut self.uploader {
            match uploader.take_done() {
                Ok(Some(upload)) => self.collect(upload.number, upload.offset, upload.pieces),
                Ok(None) => return,
                Err(error) => {
                    let oldest = uploader.oldest();
                    return self.requests.fail_once(oldest, || cuda_failure("test", &error));
                }
            }
        }
    }

    fn collect(&mut self, number: u64, offset: u32, pieces: Vec<Piece>) {
        if let Some(receive) = self.requests.ring.get_mut(number) {
            receive.collect(number, offset, &pieces, self.bounce, &mut self.queue);
        }
        self.spare(pieces);
    }

    fn spare(&mut self, mut pieces: Vec<Piece>) {
        pieces.clear();
        self.spare_pieces.push(pieces);
    }
}
