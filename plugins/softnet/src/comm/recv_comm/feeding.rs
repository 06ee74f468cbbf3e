//! Announced chunks on their way to their lanes, and the pages that they get before.

use super::{AnnouncedChunk, RecvComm};
use crate::comm::chunk::Chunk;
use crate::comm::recv_request::Destination;
use crate::failure::Failure;
use crate::faults::ArrivalPages;
use crate::log;
use crate::memory::pages_of;
use crate::nic_memory::log_and_blame;

/// Why no more chunks go to their lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunksRest {
    /// None is left.
    NoneWait,
    /// The next one's lane is full.
    NoRoom,
    /// The next one waits for pages, or for what never comes.
    NoPages,
}

impl RecvComm {
    /// Gives a message all its bounce pages at once; false when there are not enough free ones now.
    pub(super) fn allocate_pages(&mut self, number: u64, total: u32) -> Result<bool, Failure> {
        let Some(receive) = self.requests.ring.get_mut(number) else { return Ok(false) };
        if receive.allocated || !matches!(receive.destination, Destination::Device { .. }) {
            return Ok(true);
        }
        let (pages, all) = (pages_of(total, self.chunk_bytes), self.bounce.total_pages());
        if pages > u64::from(all) {
            log::warn!("message of {total} bytes needs {pages} bounce pages, there are {all}");
            return Err(Failure::Internal);
        }
        let (bounce, pages) = (self.bounce, &mut receive.pages);
        receive.allocated =
            self.shaper.allocate_pages(bounce, number, total, self.chunk_bytes, pages);
        Ok(receive.allocated)
    }

    /// Whether a chunk is for host memory, and its socket is steered to a GPU.
    fn is_missteered(&self, chunk: &AnnouncedChunk) -> bool {
        let receive = self.requests.ring.get(chunk.number).filter(|_| self.is_steered);
        receive.is_some_and(|it| matches!(it.destination, Destination::Host { .. }))
    }

    /// Moves announced chunks to their lanes, in order, as far as lanes and pages allow.
    pub(super) fn feed_lanes(&mut self) -> ChunksRest {
        while let Some(&chunk) = self.chunks.front() {
            if !self.lanes.has_room(chunk.lane) {
                return ChunksRest::NoRoom;
            }
            if self.is_missteered(&chunk) {
                return ChunksRest::NoPages;
            }
            let on_arrival = self.pages_on_arrival(&chunk);
            let total =
                self.requests.ring.get(chunk.number).and_then(|receive| receive.total).unwrap_or(0);
            let ready = match on_arrival {
                _ if self.nic.is_some() => self.reserve_pages(chunk.number),
                Some(_) => Ok(true),
                None => self.allocate_pages(chunk.number, total),
            };
            match ready {
                Ok(true) => {}
                Ok(false) => return ChunksRest::NoPages,
                Err(failure) => {
                    self.requests.fail(chunk.number, failure);
                    self.chunks.clear();
                    return ChunksRest::NoneWait;
                }
            }
            self.chunks.pop_front();
            let mut pieces = self.spare_pieces.pop().unwrap_or_default();
            let AnnouncedChunk { number, offset, size, lane } = chunk;
            self.lanes.push(
                lane,
                match on_arrival {
                    _ if self.nic.is_some() => {
                        Chunk::in_region(number, offset, size as usize, pieces)
                    }
                    Some(pages) => Chunk::on_arrival(number, offset, pages, pieces),
                    None => {
                        if let Some(receive) = self.requests.ring.get_mut(number) {
                            receive.chunk_memory(self.bounce, offset, size as usize, &mut pieces);
                        }
                        Chunk::new(number, offset, pieces)
                    }
                },
            );
        }
        ChunksRest::NoneWait
    }

    /// Reserves what a message may take of a NIC's region; false when that is not free now.
    fn reserve_pages(&mut self, number: u64) -> Result<bool, Failure> {
        let (Some(nic), Some(receive)) = (&self.nic, self.requests.ring.get_mut(number)) else {
            return Ok(false);
        };
        nic.reserve(receive, self.chunk_bytes).map_err(|error| {
            log_and_blame("test", error);
            Failure::Internal
        })
    }

    /// Pages for a chunk that gets them as its bytes arrive, if they do and it needs any.
    fn pages_on_arrival(&self, chunk: &AnnouncedChunk) -> Option<ArrivalPages> {
        let receive = self.requests.ring.get(chunk.number)?;
        let is_device = matches!(receive.destination, Destination::Device { .. });
        self.shaper.pages_on_arrival(self.bounce, chunk.size as usize).filter(|_| is_device)
    }
}
