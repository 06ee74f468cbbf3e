//! Share of a receive comm in a NIC's region, where the NIC decides where bytes go. The comm
//! reserves what messages may take, keeps what they hold until they are consumed, and then gives it
//! back.

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
use crate::nic_memory::{ArrivalStats, HeldFragments, LastingTrouble, NicRegion, Steering};

/// Number of fragments that are given back together, unless nothing else is under way.
const BATCH: u64 = 64;
/// Payload of a packet where the system does not report it.
const PACKET_BYTES: u32 = 1448;

/// Share of a receive comm in a NIC's region.
#[derive(Debug)]
pub(super) struct RegionShare {
    region: &'static NicRegion,
    /// By lane: fragments that were consumed and are to be given back.
    consumed: Vec<HeldFragments>,
    /// Payload of a packet. Each packet begins on a page of its own.
    packet_bytes: u32,
    trouble: LastingTrouble,
    /// Reason why the comm has ended.
    refusal: Option<Arc<DevmemError>>,
    /// The flow rules end after the sockets.
    _steering: Steering,
}

impl RegionShare {
    pub(super) fn new(steering: Steering, lanes: &Lanes) -> Self {
        let packet = lanes.sockets().next().map(|socket| SockRef::from(socket).tcp_mss());
        Self {
            region: steering.region(),
            consumed: (0..lanes.len()).map(|_| HeldFragments::default()).collect(),
            packet_bytes: packet.and_then(Result::ok).filter(|&it| it > 0).unwrap_or(PACKET_BYTES),
            trouble: LastingTrouble::default(),
            refusal: None,
            _steering: steering,
        }
    }

    /// Reserves what a message may take; returns false when this is not possible now.
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

    /// Gives what a chunk that has come holds to its request. If the request is for host memory,
    /// the bytes are copied there now.
    pub(super) fn finish_chunk(
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
                .map(|file| memory.slice(at, piece.len()).load(file, region.offset(*piece)));
            if let Some(Err(error)) = copied {
                log::warn!("test: received bytes cannot be copied to their destination: {error}");
                return Err(Failure::Internal);
            }
            at += piece.len();
        }
        self.mark_consumed(lane, held);
        Ok(())
    }

    /// Marks what a chunk has held as copied, so that it is given back.
    pub(super) fn mark_consumed(&mut self, lane: usize, held: HeldFragments) {
        self.consumed[lane].take_fragments(held);
    }

    /// Gives back what a request has held. `is_last`: no other request is under way.
    pub(super) fn consume(&mut self, receive: &mut RecvRequest, lanes: &Lanes, is_last: bool) {
        receive.reserved = None;
        for (lane, held) in receive.held.drain(..) {
            self.consumed[lane].take_fragments(held);
        }
        self.return_fragments(lanes, if is_last { 1 } else { BATCH });
    }

    /// Gives back what was consumed on lanes with at least `least` such fragments.
    pub(super) fn return_fragments(&mut self, lanes: &Lanes, least: u64) {
        for (lane, held) in self.consumed.iter_mut().enumerate() {
            if held.fragments() < least {
                continue;
            }
            if let Err(error) = held.return_fragments(lanes.socket(lane).as_fd()) {
                self.refusal.get_or_insert(Arc::new(error));
            }
        }
    }

    /// Keeps the region for ever, because a NIC or the system may read or write it at any time; no
    /// other comm may get it.
    pub(super) fn leak_region(&self) {
        self.region.leak();
    }

    /// Returns the reason why the comm has ended, if that is device memory or its NIC.
    pub(super) fn refusal(&mut self, lanes: &Lanes) -> Option<Arc<DevmemError>> {
        if self.refusal.is_none() {
            self.refusal = self.region.lost().cloned().or_else(|| lanes.refusal());
        }
        self.refusal.clone()
    }

    /// Returns a possible reason why a call fails: the end of the comm, or trouble that may lead to
    /// it.
    pub(super) fn trouble(&mut self, lanes: &Lanes) -> Option<Arc<DevmemError>> {
        self.refusal(lanes).or_else(|| self.region.trouble())
    }

    /// Looks at trouble of the NIC after nothing has come for a while. Trouble that lasts for
    /// `limit` ends the comm.
    pub(super) fn check_trouble(&mut self, limit: Option<Duration>) {
        if let Some(error) = self.trouble.update(self.region.trouble(), limit) {
            self.refusal.get_or_insert(error);
        }
    }
}

impl Drop for RegionShare {
    fn drop(&mut self) {
        let ArrivalStats { bytes, copied, copied_by_kernel } = self.region.stats();
        log::info!(
            "{}: of {bytes} bytes that came to its memory so far, {copied} were copied there, and \
             {copied_by_kernel} by the kernel",
            self.region.nic().name()
        );
    }
}

/// Returns the number of pages that a message takes. Each packet begins on a page of its own, and
/// each chunk may begin and end within a packet.
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
