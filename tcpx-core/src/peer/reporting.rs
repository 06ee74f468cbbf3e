//! Reports of a connection to its protocol: chunks that have finished or are unpacked, channels
//! that fail, and channels that are closed then.

use tcpx_protocol::frames::frame::ChunkCounts;
use tcpx_protocol::plans::stripe_queue::Finished;
use tcpx_sys::NcclResult;

use super::connection::Connection;
use super::resources::Resources;
use crate::error::{Error, PluginFailure, Result};
use crate::plugin::comm::close_comms;
use crate::workers::Ticket;

/// Returns whether a NIC that goes down, or the way behind it, may cause an error.
fn is_of_the_way(error: &Error) -> bool {
    matches!(
        error,
        Error::Plugin(PluginFailure {
            code: NcclResult::SYSTEM_ERROR | NcclResult::REMOTE_ERROR,
            ..
        })
    )
}

impl Connection {
    #[cfg(test)]
    pub(crate) fn segments_sent_on_link(&self) -> u32 {
        self.link.segments_sent()
    }

    /// Reports finished chunks to the protocol.
    pub(super) fn report_finished(&mut self, cx: &mut Resources) -> Result<()> {
        if self.finished.is_empty() {
            return Ok(());
        }
        let transfers = &mut cx.ledger.transfers;
        for finished in self.finished.drain(..) {
            match &finished {
                Finished::Parts { transfer, chunks, bytes, .. } => {
                    transfers.chunks_done(*transfer, *chunks, *bytes);
                }
                Finished::Together { members, .. } => {
                    for member in members {
                        transfers.chunks_done(member.transfer, 1, member.bytes);
                    }
                }
            }
            self.protocol.handle_finished(finished);
        }
        self.execute_actions(cx)
    }

    /// Has the protocol go on without a channel whose comm has failed.
    ///
    /// # Errors
    /// The failure itself, where the protocol cannot.
    pub(super) fn lose_channel(
        &mut self,
        channel: u16,
        error: Error,
        cx: &mut Resources,
    ) -> Result<()> {
        if !is_of_the_way(&error) || !self.protocol.handle_channel_failed(channel) {
            return Err(error);
        }
        self.failures.push((channel, error));
        self.execute_actions(cx)
    }

    /// Goes on with closing channels that are lost. Returns whether anything moved.
    pub(super) fn poll_lost(&mut self, cx: &mut Resources) -> Result<bool> {
        let mut moved = false;
        for index in 0..self.lost.len() {
            let lost = &mut self.lost[index];
            if lost.is_closed || lost.until > cx.batch.reached() {
                continue;
            }
            if let Some(mut lane) = lost.unpacking.take() {
                lane.finish_arrived(&mut self.finished);
                let (receives, comm) = lane.lose(&mut cx.ledger.registrations);
                lost.receives = receives;
                lost.tickets.push(close_comms(vec![comm], &cx.workers));
                moved = true;
            }
            if !lost.tickets.iter().all(Ticket::is_done) {
                continue;
            }
            lost.is_closed = true;
            lost.tickets.clear();
            for staging in lost.stagings.drain(..) {
                cx.ledger.staging.give_back(staging);
            }
            self.channel_is_closed(index, cx)?;
            moved = true;
        }
        Ok(moved)
    }

    fn channel_is_closed(&mut self, index: usize, cx: &mut Resources) -> Result<()> {
        let lost = &self.lost[index];
        tracing::warn!(peer = %self.name, "{}", lost.words());
        let (channel, unpacked) = (lost.channel, lost.receives.stats.chunks);
        // What was unpacked to the last counts before the channel does.
        self.report_finished(cx)?;
        self.protocol.handle_channel_closed(channel, unpacked);
        self.execute_actions(cx)
    }

    /// Reports to the peer what is unpacked here, where it keeps its chunks until then.
    pub(super) fn report_unpacked(&mut self, cx: &mut Resources) -> Result<()> {
        if !self.protocol.agreement().keeps_chunks {
            return Ok(());
        }
        let chunks: ChunkCounts = self.recv_stats().map(|stats| stats.chunks).collect();
        self.protocol.handle_unpacked(chunks);
        self.execute_actions(cx)
    }
}
