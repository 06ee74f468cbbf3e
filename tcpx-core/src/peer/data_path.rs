//! Whether the data path to a peer lives: looked at about once a second.

use std::time::Instant;

use smallvec::SmallVec;

use super::commons::Commons;
use super::connection::Connection;
use super::protocol::arrivals::ArrivalSample;
use crate::control::frame::ChunkCounts;
use crate::error::Result;
use crate::transfer::recv_lane::RecvLane;

impl Connection {
    /// Tells the protocol what has arrived. A peer whose chunks are lost is over.
    pub(super) fn check_data_path(&mut self, now: Instant, cx: &mut Commons) -> Result<()> {
        if self.deferred.is_some() {
            return Ok(());
        }
        let sample = |lane: &RecvLane| ArrivalSample {
            arrived: lane.chunks_arrived(),
            is_waiting: lane.awaits_bytes(),
        };
        let samples: SmallVec<[_; 8]> = self.recv_lanes.iter().map(sample).collect();
        self.protocol.handle_arrivals(&samples, cx.batch.is_unpacking(), now);
        self.act(cx)
    }

    /// Chunks sent on each channel so far.
    pub(super) fn sent_chunks(&self) -> ChunkCounts {
        let closed = self.record.sends.iter().map(|stats| stats.chunks);
        self.send_lanes.iter().map(|lane| lane.stats.chunks).chain(closed).collect()
    }
}
