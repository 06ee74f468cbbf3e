//! A peer in numbers.

use crate::peer::Peer;
use crate::stats::channel::ChannelStats;
use crate::stats::report::{ChannelReport, PeerReport};
use crate::transfer::ledger::Ledger;

impl Peer {
    /// What was counted so far, also on channels that are closed.
    pub(crate) fn report(&self, ledger: &Ledger) -> PeerReport {
        let lane = |open: Option<ChannelStats>, closed: &[ChannelStats], index: usize| {
            open.or_else(|| closed.get(index).copied()).unwrap_or_default()
        };
        let channels = self.nics.iter().enumerate().map(|(index, nic)| ChannelReport {
            nic: nic.to_string(),
            send: lane(
                self.send_lanes.get(index).map(|lane| lane.stats),
                &self.closed_sends,
                index,
            ),
            recv: lane(
                self.recv_lanes.get(index).map(|lane| lane.stats),
                &self.closed_recvs,
                index,
            ),
        });
        PeerReport {
            name: self.name.to_string(),
            state: self.state().to_owned(),
            chunk_bytes: self.agreement.chunk_bytes,
            messages_sent: self.messages.sent,
            messages_received: self.messages.received,
            errors: ledger.errors_of(self.key),
            operations: ledger.ops.values().filter(|op| op.peer == self.key).count(),
            announced: self.matcher.announced(),
            channels: channels.collect(),
        }
    }
}
