//! How many chunks each end may send on each channel, so that all of them find room in the other's
//! bounce buffer.

use std::ops::BitOr;

use tcpx_protocol::frames::frame::ChunkCounts;

use super::commons::Commons;
use super::connection::Connection;
use crate::error::Result;
use crate::transfer::recv_lane::RecvLane;

impl Connection {
    /// The peer has room for so many chunks.
    #[inline(never)]
    pub(super) fn use_credit(&mut self, chunks: &[u64]) {
        for (lane, chunks) in self.send_lanes.iter_mut().zip(chunks) {
            lane.set_credit(*chunks);
        }
    }

    /// Gives back the room of what was consumed in this round, takes new room, and tells the peer.
    /// Returns whether the peer may send more.
    pub(super) fn renew_credit(&mut self, cx: &mut Commons) -> Result<bool> {
        let renewed = self.recv_lanes.iter_mut().map_while(RecvLane::renew_credit);
        if !renewed.fold(false, BitOr::bitor) {
            return Ok(false);
        }
        let limits: ChunkCounts =
            self.recv_lanes.iter_mut().filter_map(RecvLane::credit_limit).collect();
        self.protocol.handle_credit(limits);
        self.act(cx).map(|()| true)
    }
}
