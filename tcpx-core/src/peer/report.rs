//! A peer in numbers.

use super::{Peer, State};
use crate::stats::channel::ChannelStats;
use crate::stats::report::{ChannelReport, PeerReport};

impl Peer {
    /// What was counted so far, also on channels that are closed.
    pub(crate) fn report(&self) -> PeerReport {
        let mut report = PeerReport {
            name: self.name.to_string(),
            state: self.state().to_owned(),
            chunk_bytes: self.chunk_bytes(),
            ..PeerReport::default()
        };
        let (mut open_sends, mut open_recvs) = (Vec::new(), Vec::new());
        let (messages, record) = match &self.state {
            State::Dialling(_) | State::Welcomed => return report,
            State::Gone(gone) => (gone.messages, &gone.record),
            State::Linked(connection) => {
                report.link_authenticated = connection.link.is_authenticated();
                report.operations = connection.protocol.operation_count();
                report.announced = connection.protocol.announced();
                report.unannounced = connection.protocol.unannounced();
                report.eager_unreceived = connection.protocol.unreceived();
                report.eager_kept = connection.protocol.kept();
                open_sends.extend(connection.send_lanes.iter().map(|lane| lane.stats));
                open_recvs.extend(connection.recv_lanes.iter().map(|lane| lane.stats));
                (connection.protocol.messages(), &connection.record)
            }
        };
        report.messages_sent = messages.sent;
        report.messages_received = messages.received;
        report.eager_sent = messages.sent_on_link;
        report.eager_received = messages.received_on_link;
        report.one_sided = messages.one_sided;
        report.errors = record.errors;
        let lane = |open: &[ChannelStats], closed: &[ChannelStats], index: usize| {
            open.get(index).or_else(|| closed.get(index)).copied().unwrap_or_default()
        };
        let channels = record.nics.iter().enumerate().map(|(index, nic)| ChannelReport {
            nic: nic.to_string(),
            send: lane(&open_sends, &record.sends, index),
            recv: lane(&open_recvs, &record.recvs, index),
        });
        report.channels = channels.collect();
        report
    }
}
