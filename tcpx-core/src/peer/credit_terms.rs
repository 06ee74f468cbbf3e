//! What the channels of one peer need of the bounce buffer, where that counts.

use tcpx_sys::UNPACK_PAGE_BYTES;

use super::session_context::SessionContext;
use crate::control::hello::Agreement;
use crate::error::{BounceBufferProblem, Error, MemoryUnavailable, Result};
use crate::plugin::bounce_pool::{BouncePool, chunk_pages};
use crate::plugin::comm::RecvComm;

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
        let pool = BouncePool::of(comm.queue().bounce(), pool_bytes);
        if let Some(credit) = pool.admit(self.chunk_pages) {
            comm.set_credit(credit);
            return Ok(());
        }
        let channel_bytes = self.chunk_pages * UNPACK_PAGE_BYTES as u64;
        let kept = pool.kept();
        let problem = BounceBufferProblem::TooSmall {
            pool_bytes,
            channels: self.channels,
            chunk_bytes: self.chunk_bytes,
            needed_bytes: u64::from(self.channels) * channel_bytes,
            other_channels: kept.channels.saturating_sub(admitted),
            other_bytes: kept.bytes.saturating_sub(admitted as u64 * channel_bytes),
        };
        Err(Error::MemoryUnavailable(MemoryUnavailable::BounceBuffer(problem)))
    }
}
