//! Announced chunks on their way to their lanes, and the pages that they get before.

use super::{AnnouncedChunk, RecvComm};
use crate::comm::chunk::{Arrival, Chunk};
use crate::comm::recv_request::Destination;
use crate::failure::Failure;
use crate::hooks::{Hook, Pages, Placement};
use crate::last_failure::log_and_set_last_failure;
use crate::log;
use crate::memory::{BounceBuffer, ReceivePages, pages_of};

/// Reason why no more chunks go to their lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedStop {
    /// None is left.
    NoneWait,
    /// The lane of the next chunk is full.
    NoRoom,
    /// The next chunk waits for pages, or for pages that never come.
    NoPages,
}

impl RecvComm {
    /// Gives a message all its bounce pages at once; returns false when there are not enough free
    /// pages now.
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
        let (bounce, chunk_bytes) = (self.bounce, self.chunk_bytes);
        receive.allocated = match self.requests.hook.get_mut() {
            None => receive.pages.take_pages(bounce, total, chunk_bytes),
            Some(hook) => {
                let placement = hook.place(Pages::new(bounce), number, total, chunk_bytes);
                take_pages_at(placement, &mut receive.pages, bounce, total, chunk_bytes)
            }
        };
        Ok(receive.allocated)
    }

    /// Returns whether a chunk is for host memory, and its socket is steered to a GPU.
    fn is_missteered(&self, chunk: &AnnouncedChunk) -> bool {
        self.requests.hook.says(|hook| hook.is_steered())
            && self.requests.ring.get(chunk.number).is_some_and(|it| it.device_address().is_none())
    }

    /// Moves announced chunks to their lanes, in order, until a lane is full or pages run out.
    pub(super) fn feed_lanes(&mut self) -> FeedStop {
        while let Some(&chunk) = self.chunks.front() {
            if !self.lanes.has_room(chunk.lane) {
                return FeedStop::NoRoom;
            }
            if self.is_missteered(&chunk) {
                return FeedStop::NoPages;
            }
            let on_arrival = self.memory_on_arrival(&chunk);
            let total =
                self.requests.ring.get(chunk.number).and_then(|receive| receive.total).unwrap_or(0);
            let ready = match () {
                _ if self.nic.is_some() => self.reserve_pages(chunk.number),
                _ if on_arrival.get().is_some() => Ok(true),
                _ => self.allocate_pages(chunk.number, total),
            };
            match ready {
                Ok(true) => {}
                Ok(false) => return FeedStop::NoPages,
                Err(failure) => {
                    self.requests.fail(chunk.number, failure);
                    self.chunks.clear();
                    return FeedStop::NoneWait;
                }
            }
            self.chunks.pop_front();
            let mut pieces = self.spare_pieces.pop().unwrap_or_default();
            let AnnouncedChunk { number, offset, size, lane } = chunk;
            self.lanes.push(
                lane,
                match () {
                    _ if self.nic.is_some() => {
                        Chunk::in_region(number, offset, size as usize, pieces)
                    }
                    _ if on_arrival.get().is_some() => {
                        Chunk::on_arrival(number, offset, on_arrival, pieces)
                    }
                    _ => {
                        let receive = self.requests.ring.get_mut(number);
                        let is_device = receive.is_some_and(|it| {
                            it.chunk_memory(self.bounce, offset, size as usize, &mut pieces);
                            it.device_address().is_some()
                        });
                        Chunk::new(number, offset, pieces).unseen(is_device)
                    }
                },
            );
        }
        FeedStop::NoneWait
    }

    /// Reserves what a message may take of a NIC's region; returns false when this much is not free
    /// now.
    fn reserve_pages(&mut self, number: u64) -> Result<bool, Failure> {
        let (Some(nic), Some(receive)) = (&self.nic, self.requests.ring.get_mut(number)) else {
            return Ok(false);
        };
        nic.reserve(receive, self.chunk_bytes).map_err(|error| {
            log_and_set_last_failure("test", error);
            Failure::Internal
        })
    }

    /// Returns the memory of a chunk that gets it as its bytes arrive, if it does and needs any.
    fn memory_on_arrival(&mut self, chunk: &AnnouncedChunk) -> Hook<Arrival> {
        let receive = self.requests.ring.get(chunk.number);
        let is_device = receive.is_some_and(|it| it.device_address().is_some());
        let hook = self.requests.hook.get_mut().filter(|_| is_device);
        let (pages, region) = (Pages::new(self.bounce), self.bounce.region());
        let memory = hook.and_then(|it| it.on_arrival(pages, chunk.lane, chunk.size as usize));
        Hook::new(memory.map(|memory| Box::new(Arrival { memory, region })))
    }
}

/// Gives a message its pages where a hook wants them; returns false when that place is not free
/// now.
fn take_pages_at(
    placement: Placement,
    receive: &mut ReceivePages,
    bounce: &BounceBuffer,
    total: u32,
    chunk_bytes: u32,
) -> bool {
    match placement {
        Placement::Usual => receive.take_pages(bounce, total, chunk_bytes),
        #[cfg(feature = "hooks")]
        Placement::At { pages, fragments } => {
            receive.put_numbers(&pages);
            let piece = |&(at, len): &(usize, usize)| bounce.region().piece(at, len);
            receive.set_pieces(fragments.iter().map(piece));
            true
        }
        _ => false,
    }
}
