//! How many chunks each end may send on each channel: what the receiving end has room for. Pure.
//!
//! The first number comes with *ready*. Numbers count from the first chunk, so they only grow, and
//! a new one needs no answer. An end that has said goodbye gives no more: everything matched has
//! ended there, and the other may close the link without reading on.

use super::PeerProtocol;
use super::action::{Action, Violation};
use super::stage::Stage;
use crate::frames::frame::{ChunkCounts, Frame};

impl PeerProtocol {
    /// This end has room for so many chunks on each channel.
    pub fn handle_credit(&mut self, chunks: ChunkCounts) {
        let is_needed = match &self.stage {
            Stage::Up { .. } => true,
            Stage::Closing(shutdown) => !shutdown.has_said_goodbye(),
            Stage::Connecting { .. } | Stage::Over => false,
        };
        if is_needed {
            self.actions.push_back(Action::Send(Frame::Credit(chunks)));
        }
    }

    /// The peer has room for so many chunks.
    #[inline(never)]
    pub(super) fn peer_credits(&mut self, chunks: ChunkCounts) {
        if chunks.is_empty() || chunks.len() != self.credit.len() {
            return self.broken(Violation::CreditChannels(chunks.len()));
        }
        let mut channels = (0..).zip(self.credit.iter().zip(&chunks));
        if let Some((channel, (before, now))) = channels.find(|(_, (before, now))| now < before) {
            let (before, now) = (*before, *now);
            return self.broken(Violation::CreditTakenBack { channel, before, now });
        }
        self.credit = chunks;
        self.use_credit();
    }

    /// Has the send lanes know what the peer has room for, if it counts.
    pub(super) fn use_credit(&mut self) {
        if !self.credit.is_empty() {
            self.actions.push_back(Action::Credit(self.credit.clone()));
        }
    }
}
