//! Record of the channels that are lost, and of what both ends have said of it. Pure.

use super::violation::Violation;
use crate::frames::frame::ChunkCounts;
use crate::plans::channel_set::ChannelSet;

/// Record of the channels that are lost.
#[derive(Debug)]
pub(super) struct Losses {
    /// Channels that there were.
    all: ChannelSet,
    /// Channels whose comms are not being closed.
    pub(super) whole: ChannelSet,
    /// Channels that the other end deals chunks to.
    pub(super) receives: ChannelSet,
    /// Channels whose chunks come from the other end as they should: all that are not lost, and
    /// those that it has dealt anew.
    pub(super) received: ChannelSet,
    /// Lost channels whose chunks this end has dealt anew.
    pub(super) sent: ChannelSet,
    /// Chunks that this end has unpacked on each channel, as it has said; empty: it said nothing.
    pub(super) reported: ChunkCounts,
    /// Chunks that the other end has unpacked on each channel; empty: it has said nothing.
    pub(super) unpacked: ChunkCounts,
}

impl Losses {
    pub(super) fn new(channels: u16) -> Self {
        let all = ChannelSet::first(channels);
        let (reported, unpacked) = (ChunkCounts::new(), ChunkCounts::new());
        Self { all, whole: all, receives: all, received: all, sent: all, reported, unpacked }
    }

    /// Returns whether any channel is lost.
    pub(super) fn are_any(&self) -> bool {
        self.whole != self.all
    }

    /// Takes the word of the other end on the chunks that it has unpacked.
    pub(super) fn hear(&mut self, chunks: &ChunkCounts) -> Result<(), Violation> {
        let channels = (0..).zip(self.unpacked.iter().zip(chunks));
        for (channel, (before, now)) in channels {
            if now < before {
                let (before, now) = (*before, *now);
                return Err(Violation::UnpackedTakenBack { channel, before, now });
            }
        }
        self.unpacked.clone_from(chunks);
        Ok(())
    }
}
