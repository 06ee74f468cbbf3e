//! Bytes that have come on a receive comm: they are counted, and their entries are written. Where
//! the bounce region is in GPU memory, the bytes are first copied there. Where a NIC has put bytes
//! for host memory into GPU memory, they are copied down from there.

use tcpx_sys::MAX_UNPACK_ENTRIES;

use super::{RecvComm, too_many_fragments};
use crate::comm::chunk::Chunk;
use crate::comm::recv_request::{Destination, RecvRequest};
use crate::failure::Failure;
use crate::memory::{Piece, cuda_failure};

impl RecvComm {
    pub(super) fn receive_inline(&mut self, number: u64, size: u32) {
        let hook = self.requests.hook.get().filter(|hook| hook.copies_inline());
        if let Some(hook) = hook
            && let Some(receive) = self.requests.ring.get_mut(number)
            && let Some(address) = receive.device_address()
        {
            hook.copy_inline(address, &self.input.bytes()[..size as usize]);
            receive.arrived = size;
            return self.input.consume(size as usize);
        }
        let mut pieces = self.spare_pieces.pop().unwrap_or_default();
        if let Some(receive) = self.requests.ring.get_mut(number) {
            receive.chunk_memory(self.bounce, 0, size as usize, &mut pieces);
            let mut payload = &self.input.bytes()[..size as usize];
            for piece in &pieces {
                let (now, later) = payload.split_at(piece.len().min(payload.len()));
                match receive.destination {
                    Destination::Host { .. } => piece.write(now),
                    Destination::Device { .. } => self.bounce.region().write(*piece, now),
                }
                payload = later;
            }
        }
        self.input.consume(size as usize);
        self.arrived(number, 0, pieces);
    }

    pub(super) fn harvest(&mut self) {
        let mut harvested = std::mem::take(&mut self.harvested);
        self.lanes.harvest(|lane, chunk| harvested.push((lane, chunk)));
        for (lane, mut chunk) in harvested.drain(..) {
            if chunk.failed {
                self.requests.fail(chunk.number, Failure::System);
                self.spare(chunk.pieces);
                continue;
            }
            self.keep_pages(lane, &mut chunk);
            if let (Some(downloads), Some(receive)) =
                (&mut self.downloads, self.requests.ring.get(chunk.number))
                && matches!(receive.destination, Destination::Host { .. })
            {
                downloads.push(lane, chunk);
                continue;
            }
            if let (Some(nic), Some(receive)) =
                (&mut self.nic, self.requests.ring.get_mut(chunk.number))
                && let Err(failure) = nic.finish_chunk(lane, &mut chunk, receive)
            {
                self.requests.fail(chunk.number, failure);
            }
            self.arrived(chunk.number, chunk.offset, chunk.pieces);
        }
        self.harvested = harvested;
    }

    /// Gives the pages that a chunk got as it arrived to its request.
    fn keep_pages(&mut self, lane: usize, chunk: &mut Chunk) {
        let Some(receive) = self.requests.ring.get_mut(chunk.number) else { return };
        if let Some(mut arrival) = chunk.arrival.take() {
            receive.pages.put_numbers(&arrival.memory.hand_over());
        }
        if let Some(hook) = self.requests.hook.get_mut()
            && receive.device_address().is_some()
        {
            let region = self.bounce.region();
            let mut pieces = chunk.pieces.iter().map(|it| (region.offset(*it), it.len()));
            hook.arrived(chunk.number, lane, &mut pieces);
        }
    }

    /// Takes a chunk that has arrived in `pieces`. The chunk is finished, or is first copied to the
    /// GPU.
    fn arrived(&mut self, number: u64, offset: u32, pieces: Vec<Piece>) {
        if let Some(garbage) = self.requests.hook.get().and_then(|hook| hook.garbled()) {
            let region = self.bounce.region();
            pieces.iter().for_each(|piece| region.write(*piece, &vec![garbage; piece.len()]));
        }
        let in_pages =
            |receive: &RecvRequest| matches!(receive.destination, Destination::Device { .. });
        let region = self.bounce.region();
        let is_to_copy = self.requests.ring.get(number).is_some_and(in_pages)
            && pieces.iter().any(|piece| region.upload_source(*piece).is_some());
        match &mut self.uploader {
            Some(uploader) if is_to_copy => {
                if let Err(error) = uploader.start(region, number, offset, pieces) {
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

    /// Copies chunks for host memory down from the GPU, up to the limit of a call, and counts those
    /// that are there.
    pub(super) fn take_downloads(&mut self) {
        let (Some(downloads), Some(nic)) = (&mut self.downloads, &mut self.nic) else { return };
        let (requests, region) = (&mut self.requests, self.bounce.region());
        let spare = &mut self.spare_pieces;
        let outcome = downloads.run(region, |mut chunk, bytes| {
            if let Some(receive) = requests.ring.get_mut(chunk.number)
                && let Destination::Host { memory, .. } = receive.destination
            {
                memory.slice(chunk.offset as usize, bytes.len()).copy_from(bytes);
                receive.arrived += bytes.len() as u32;
            }
            nic.mark_consumed(chunk.lane, chunk.held);
            chunk.pieces.clear();
            spare.push(chunk.pieces);
        });
        if let Err((number, error)) = outcome {
            self.requests.fail_once(Some(number), || cuda_failure("test", &error));
        }
    }

    fn collect(&mut self, number: u64, offset: u32, pieces: Vec<Piece>) {
        if let Some(receive) = self.requests.ring.get_mut(number) {
            let fragments = receive.collect(number, offset, &pieces, self.bounce, &mut self.queue);
            let all = receive.entries;
            self.check_fragments(number, fragments, all);
        }
        self.spare(pieces);
    }

    /// Checks request `number` after a chunk that came in `fragments` fragments; it now has `all`.
    fn check_fragments(&mut self, number: u64, fragments: usize, all: usize) {
        if let Some(hook) = self.requests.hook.get() {
            hook.fragments(fragments, all);
        }
        if all > MAX_UNPACK_ENTRIES {
            self.requests.fail_once(Some(number), || too_many_fragments(all as u64));
        }
    }

    fn spare(&mut self, mut pieces: Vec<Piece>) {
        pieces.clear();
        self.spare_pieces.push(pieces);
    }
}
