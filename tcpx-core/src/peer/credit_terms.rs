//! What the channels of one peer need of the bounce buffer, where that counts.

use tcpx_protocol::frames::hello::Agreement;
use tcpx_protocol::peer::bounce_pool::BouncePool;
use tcpx_sys::{MAX_UNPACK_ENTRIES, UNPACK_PAGE_BYTES};

use super::session_context::SessionContext;
use crate::error::{BounceBufferProblem, Error, MemoryUnavailable, Result};
use crate::plugin::comm::RecvComm;

/// Bytes of a page.
const PAGE_BYTES: u64 = UNPACK_PAGE_BYTES as u64;
/// One packet in this many may be shorter than it could be.
const SHORT_PACKETS: u32 = 16;

/// Pages that a chunk takes at most when it comes in packets of this many bytes of payload. A
/// packet begins on a page of its own; the first and the last may hold bytes of other chunks.
fn chunk_pages(chunk_bytes: u32, packet_bytes: u32) -> u64 {
    let packets = chunk_bytes.div_ceil(packet_bytes.max(1));
    let packets = u64::from(packets) + u64::from(packets / SHORT_PACKETS) + 2;
    let pages = packets * u64::from(packet_bytes).div_ceil(PAGE_BYTES);
    // A chunk with more fragments than this ends the receiving process.
    pages.min(MAX_UNPACK_ENTRIES as u64)
}

/// What the channels of one peer need of the bounce buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreditTerms {
    channels: u16,
    chunk_bytes: u32,
    chunk_pages: u64,
}

impl CreditTerms {
    /// `None`: what the peer sends need not be bounded.
    pub(super) fn new(agreement: Agreement, session: &SessionContext) -> Option<Self> {
        let Agreement { channels, chunk_bytes, .. } = agreement;
        let chunk_pages = chunk_pages(chunk_bytes, session.packet_bytes);
        session.gives_credit().then_some(Self { channels, chunk_bytes, chunk_pages })
    }

    /// Takes room for a comm's first chunk. So many channels of the peer have theirs.
    ///
    /// # Errors
    /// [`BounceBufferProblem::TooSmall`].
    pub(super) fn admit(self, comm: &mut RecvComm, admitted: usize) -> Result<()> {
        let pool_bytes = comm.pool_bytes()?;
        let pool = BouncePool::of(comm.queue().bounce(), pool_bytes / PAGE_BYTES);
        if let Some(credit) = pool.admit(self.chunk_pages) {
            comm.set_credit(credit);
            return Ok(());
        }
        let channel_bytes = self.chunk_pages * PAGE_BYTES;
        let kept = pool.kept();
        let problem = BounceBufferProblem::TooSmall {
            pool_bytes,
            channels: self.channels,
            chunk_bytes: self.chunk_bytes,
            needed_bytes: u64::from(self.channels) * channel_bytes,
            other_channels: kept.channels.saturating_sub(admitted),
            other_bytes: (kept.pages * PAGE_BYTES).saturating_sub(admitted as u64 * channel_bytes),
        };
        Err(Error::MemoryUnavailable(MemoryUnavailable::BounceBuffer(problem)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_chunk_takes_its_bytes_in_pages_at_least(
            bytes in 1u32..=4 << 20,
            packet in 1u32..20_000,
        ) {
            let pages = chunk_pages(bytes, packet);
            let least = u64::from(bytes).div_ceil(PAGE_BYTES);
            prop_assert!((least..=2048).contains(&pages), "{pages}");
            let packets = u64::from(bytes.div_ceil(packet));
            prop_assert!(pages >= packets.min(2048));
        }
    }

    /// What was measured with packets of 8 KiB and pages of 4 KiB: 129 pages for 512 KiB, 1026 for
    /// 4 MiB.
    #[test]
    fn measured_chunks_take_no_more_than_they_are_given() {
        assert_eq!((chunk_pages(512 << 10, 8192), chunk_pages(4 << 20, 8192)), (140, 1092));
        assert_eq!((chunk_pages(512 << 10, 1448), chunk_pages(4 << 20, 1448)), (387, 2048));
    }

    /// Buffers that were seen to fill up with parts of chunks, and buffers that were not.
    #[test]
    fn a_pool_takes_as_many_channels_as_it_has_chunks() {
        let fits = |pool_mib: u64, channels: usize, chunk_kib: u32| {
            let pool = BouncePool::new((pool_mib << 20) / PAGE_BYTES);
            let pages = chunk_pages(chunk_kib << 10, 1448);
            let credits: Vec<_> = (0..channels).map_while(|_| pool.admit(pages)).collect();
            credits.len() == channels
        };
        for (pool, channels, chunk) in [(64, 16, 4096), (2, 4, 512), (4, 8, 2048), (1, 4, 4096)] {
            assert!(!fits(pool, channels, chunk), "{channels} of {chunk} KiB in {pool} MiB");
        }
        for (pool, channels) in [(8, 2), (16, 8), (32, 4), (64, 32)] {
            assert!(fits(pool, channels, 512), "{channels} in {pool} MiB");
        }
    }
}
