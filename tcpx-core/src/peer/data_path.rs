//! Whether the data path to a peer lives: looked at about once a second.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use tcpx_diagnosis::pci::nic_down;
use tcpx_protocol::frames::frame::ChunkCounts;
use tcpx_protocol::peer::arrivals::ArrivalSample;
use tcpx_protocol::peer::stage::PeerStage;

use super::commons::Commons;
use super::connection::Connection;
use crate::error::Result;
use crate::error::awaited::DownNic;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;

impl Connection {
    /// Looks at the comms of lanes, as far as the plugin can tell, and tells the protocol what
    /// has arrived: a peer is over whose comms are dead, or whose chunks are lost.
    pub(super) fn check_data_path(&mut self, now: Instant, cx: &mut Commons) -> Result<()> {
        if self.deferred.is_some() {
            return Ok(());
        }
        // While both ends leave, comms may close.
        if self.protocol.stage() == PeerStage::Up
            && let Err(error) = self.look_at_lanes()
        {
            return self.defer(error, now, cx).map(drop);
        }
        let sample = |lane: &RecvLane| ArrivalSample {
            arrived: lane.chunks_arrived(),
            is_waiting: lane.awaits_bytes(),
        };
        let samples: SmallVec<[_; 8]> = self.recv_lanes.iter().map(sample).collect();
        self.protocol.handle_arrivals(&samples, cx.batch.is_unpacking(), now);
        self.act(cx)
    }

    fn look_at_lanes(&mut self) -> Result<()> {
        self.send_lanes.iter_mut().try_for_each(SendLane::look_if_unknown)?;
        self.recv_lanes.iter_mut().try_for_each(RecvLane::look_if_unknown)
    }

    /// The first channel whose NIC is down at this host. Reads a file for each NIC.
    pub(crate) fn down_nic(&self) -> Option<DownNic> {
        let mut seen = SmallVec::<[&str; 8]>::new();
        let mut channels = self.record.nics.iter().enumerate();
        let (channel, nic) = channels.find(|(_, nic)| {
            let is_new = !seen.contains(&nic.as_ref());
            seen.push(nic);
            is_new && nic_down(Path::new("/"), nic).is_some()
        })?;
        Some(DownNic { channel, nic: Arc::clone(nic) })
    }

    /// Chunks sent on each channel so far.
    pub(super) fn sent_chunks(&self) -> ChunkCounts {
        let closed = self.record.sends.iter().map(|stats| stats.chunks);
        self.send_lanes.iter().map(|lane| lane.stats.chunks).chain(closed).collect()
    }
}
