//! What a receive comm does where a NIC decides where bytes go: it reserves what messages may take,
//! keeps what they hold until they are consumed, and gives that back.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tcpx_devmem::DevmemError;
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::comm::chunk::Chunk;
use crate::comm::lanes::Lanes;
use crate::comm::recv_request::{Destination, RecvRequest};
use crate::failure::Failure;
use crate::log;
use crate::nic_memory::{ArrivalStats, Held, LastingTrouble, NicRegion, Steering};

/// Fragments that are given back together, unless nothing else is under way.
const BATCH: u64 = 64;
/// Payload of a packet where the system does not say.
const PACKET_BYTES: u32 = 1448;

/// What a receive comm has of a NIC's region.
#[derive(Debug)]
pub(super) struct RegionUse {
    region: &'static NicRegion,
    /// By lane: what was consumed and is to be given back.
    consumed: Vec<Held>,
    /// Payload of a packet, each of which begins on a page of its own.
    packet_bytes: u32,
    trouble: LastingTrouble,
    /// Why the comm has ended.
    refusal: Option<Arc<DevmemError>>,
    /// The flow rules end after the sockets.
    _steering: Steering,
}

impl RegionUse {
    pub(super) fn new(steering: Steering, lanes: &Lanes) -> Self {
        let packet = lanes.sockets().next().map(|socket| SockRef::from(socket).tcp_mss());
        Self {
            region: steering.region(),
            consumed: (0..lanes.len()).map(|_| Held::default()).collect(),
            packet_bytes: packet.and_then(Result::ok).filter(|&it| it > 0).unwrap_or(PACKET_BYTES),
            trouble: LastingTrouble::default(),
            refusal: None,
            _steering: steering,
        }
    }

    /// Reserves what a message may take; false: not now.
    pub(super) fn reserve(
        &self,
        receive: &mut RecvRequest,
        chunk_bytes: u32,
    ) -> Result<bool, DevmemError> {
        if receive.reserved.is_none() {
            let total = receive.total.unwrap_or_default();
            let pages = pages_of(total, chunk_bytes, self.packet_bytes);
            receive.reserved = self.region.reserve(pages)?;
        }
        Ok(receive.reserved.is_some())
    }

    /// A chunk has come. What it holds is its request's; where that is for host memory, the bytes
    /// go there now.
    pub(super) fn settle(
        &mut self,
        lane: usize,
        chunk: &mut Chunk,
        receive: &mut RecvRequest,
    ) -> Result<(), Failure> {
        let held = std::mem::take(&mut chunk.held);
        let Destination::Host { memory, .. } = &receive.destination else {
            receive.held.push((lane, held));
            return Ok(());
        };
        let region = self.region.bounce().region();
        let mut at = chunk.offset as usize;
        for piece in &chunk.pieces {
            let copied = region
                .file()
                .map(|file| memory.part(at, piece.len()).load(file, region.offset(*piece)));
            if let Some(Err(error)) = copied {
                log::warn!("test: what came cannot be copied to where it was posted: {error}");
                return Err(Failure::Internal);
            }
            at += piece.len();
        }
        self.let_go(lane, held);
        Ok(())
    }

    /// What a chunk has held was copied, and is to be given back.
    pub(super) fn let_go(&mut self, lane: usize, held: Held) {
        self.consumed[lane].take_fragments(held);
    }

    /// Gives back what a request has held. `is_last`: no other is under way.
    pub(super) fn consume(&mut self, receive: &mut RecvRequest, lanes: &Lanes, is_last: bool) {
        receive.reserved = None;
        for (lane, held) in receive.held.drain(..) {
            self.consumed[lane].take_fragments(held);
        }
        self.give_back(lanes, if is_last { 1 } else { BATCH });
    }

    /// Gives back what was consumed on lanes where that are so many fragments.
    pub(super) fn give_back(&mut self, lanes: &Lanes, least: u64) {
        for (lane, held) in self.consumed.iter_mut().enumerate() {
            if held.fragments() < least {
                continue;
            }
            if let Err(error) = held.give_back(lanes.socket(lane).as_fd()) {
                self.refusal.get_or_insert(Arc::new(error));
            }
        }
    }

    /// Something may read or write the region for ever, so nobody else may have it.
    pub(super) fn keep_region(&self) {
        self.region.keep();
    }

    /// Why the comm has ended, if device memory or its NIC are why.
    pub(super) fn refusal(&mut self, lanes: &Lanes) -> Option<Arc<DevmemError>> {
        if self.refusal.is_none() {
            self.refusal = self.region.lost().cloned().or_else(|| lanes.refusal());
        }
        self.refusal.clone()
    }

    /// What may be why a call fails: the end, or what may lead to it.
    pub(super) fn trouble(&mut self, lanes: &Lanes) -> Option<Arc<DevmemError>> {
        self.refusal(lanes).or_else(|| self.region.trouble())
    }

    /// Nothing has come for a while. Trouble that lasts for `limit` is an end.
    pub(super) fn look(&mut self, limit: Option<Duration>) {
        if let Some(error) = self.trouble.look(self.region.trouble(), limit) {
            self.refusal.get_or_insert(error);
        }
    }
}

impl Drop for RegionUse {
    fn drop(&mut self) {
        let ArrivalStats { bytes, copied, copied_by_kernel } = self.region.stats();
        log::info!(
            "{}: of {bytes} bytes that came to its memory so far, {copied} were copied there, and \
             {copied_by_kernel} by the kernel",
            self.region.nic().name()
        );
    }
}

/// Pages that a message takes: each packet begins on a page of its own, and each chunk may begin
/// and end within one.
fn pages_of(total: u32, chunk_bytes: u32, packet_bytes: u32) -> u64 {
    let pages = |bytes: u32| u64::from(bytes.div_ceil(UNPACK_PAGE_BYTES as u32));
    let of_chunk = |bytes: u32| {
        let (whole, rest) = (bytes / packet_bytes, bytes % packet_bytes);
        u64::from(whole) * pages(packet_bytes) + pages(rest)
    };
    let chunks = u64::from(total.div_ceil(chunk_bytes));
    u64::from(total / chunk_bytes) * of_chunk(chunk_bytes) + of_chunk(total % chunk_bytes) + chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_packet() {
        let kib = 1 << 10;
        assert_eq!(pages_of(0, 512 * kib, 1448), 0);
        assert_eq!(pages_of(1, 512 * kib, 1448), 2);
        assert_eq!(pages_of(1448 * 3, 512 * kib, 1448), 4);
        // 58 packets of three pages, and a rest of 5304 bytes.
        assert_eq!(pages_of(512 * kib, 512 * kib, 8948), 58 * 3 + 2 + 1);
        assert_eq!(pages_of(1024 * kib, 512 * kib, 8948), 2 * (58 * 3 + 2 + 1));
        assert_eq!(pages_of(u32::MAX, 1, 1), 2 * u64::from(u32::MAX));
    }
}
