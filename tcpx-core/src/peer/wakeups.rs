//! Wake-ups of a connection, the time of its next drive, and its counts.

use std::path::Path;
use std::sync::Arc;

use smallvec::SmallVec;
use tcpx_diagnosis::pci::nic_down;
use tcpx_protocol::peer::lifecycle::stage::PeerStage;

use super::connection::Connection;
use super::{ConnectionState, Peer};
use crate::error::awaited::DownNic;
use crate::plugin::comm::NextCall;
use crate::reactor::Attention;
use crate::reactor::poller::{IoEvent, Poller, Target};
use crate::stats::ChannelStats;
use crate::stats::report::{ChannelReport, PeerReport};

impl Connection {
    /// Registers the link with the poller.
    pub(super) fn watch(&mut self, poller: &Arc<Poller>) {
        self.link.watch(poller, Target::Link(self.key));
    }

    /// Handles an event on one of its descriptors.
    pub(crate) fn wake(&mut self, event: IoEvent) {
        match event.target {
            Target::Link(_) => self.link.wake(event.is_hung_up),
            Target::Send(_, channel) => {
                if let Some(lane) = self.send_lanes.get_mut(channel) {
                    lane.wake();
                }
            }
            Target::Receive(_, channel) => {
                if let Some(lane) = self.recv_lanes.get_mut(channel) {
                    lane.wake();
                }
            }
            Target::Listener => {}
        }
    }

    /// Returns the attention that it needs: when it must be driven next, apart from when something
    /// happens.
    pub(super) fn attention(&self) -> Attention {
        if self.protocol.is_parted() {
            // Its last comms are closing. Its link may have ended, and is not read any more.
            let holds_slots = self.is_copying();
            return Attention { awaits_worker: true, holds_slots, ..Attention::default() };
        }
        let is_losing = self.is_losing();
        let awaits_worker = self.protocol.is_setting_up() || self.closing.is_some() || is_losing;
        let mut wants = Attention {
            again: (self.link.has_more() && self.may_read_link())
                || self.protocol.is_withdrawing()
                || self.protocol.awaits_round()
                || !self.finished.is_empty()
                || self.has_frames_to_send(),
            polls: self.link.must_be_polled(),
            awaits_worker,
            timeout: self.timeout,
            holds_slots: is_losing || self.is_copying(),
            ..Attention::default()
        };
        if let Some(deferred) = &self.deferred {
            // The protocol gets no timeouts any more.
            wants.timeout = Some(deferred.ends_at());
            return wants;
        }
        for lane in self.send_lanes.iter() {
            let next = lane.next_call();
            wants.again |= next == NextCall::Now;
            wants.polls |= next == NextCall::Soon;
            // Its memory may be on its way to the comm.
            wants.awaits_worker |= next == NextCall::Soon || lane.awaits_staging();
            wants.holds_slots |= lane.is_gathering();
            wants.sending |= !lane.is_idle();
        }
        for lane in self.recv_lanes.iter() {
            let next = lane.next_call();
            wants.again |= next == NextCall::Now;
            wants.polls |= next == NextCall::Soon;
            wants.awaits_worker |= next == NextCall::Soon;
            wants.holds_slots |= lane.holds_slots();
            wants.receiving |= lane.awaits_bytes();
        }
        wants
    }

    /// Returns whether the protocol has more frames, and the link takes them.
    fn has_frames_to_send(&self) -> bool {
        self.link.unsent_bytes() == 0 && self.protocol.has_output()
    }

    /// Returns whether the peer is up with nothing under way and nothing posted.
    pub(super) fn is_idle(&self) -> bool {
        self.is_up_without_traffic() && self.protocol.operation_count() == 0
    }

    /// Returns whether the peer is up with nothing under way and no comm ready. Receives without a
    /// send may be posted.
    pub(super) fn is_quiescent(&self) -> bool {
        let is_silent = self.send_lanes.iter().all(|it| it.next_call() == NextCall::OnEvent)
            && self.recv_lanes.iter().all(|it| it.next_call() == NextCall::OnEvent);
        is_silent && self.is_up_without_traffic() && self.protocol.waiting_sends() == 0
    }

    fn is_up_without_traffic(&self) -> bool {
        let is_up = self.protocol.stage() == PeerStage::Up && self.deferred.is_none();
        let is_moving = self.send_lanes.iter().any(|lane| !lane.is_idle())
            || self.recv_lanes.iter().any(|lane| lane.awaits_bytes() || lane.holds_slots());
        is_up && !is_moving && !self.is_losing() && !self.is_copying()
    }
}

impl Connection {
    /// Returns the first channel whose NIC is down at this host. Reads a file for each NIC.
    pub(crate) fn down_nic(&self) -> Option<DownNic> {
        let mut seen = SmallVec::<[&str; 8]>::new();
        let mut channels = self.record.nics.iter().enumerate();
        let (channel, nic) = channels.find(|(channel, nic)| {
            let is_new = !seen.contains(&nic.as_ref());
            seen.push(nic);
            is_new
                && self.lost(*channel as u16).is_none()
                && nic_down(Path::new("/"), nic).is_some()
        })?;
        Some(DownNic { channel, nic: Arc::clone(nic) })
    }
}

impl Peer {
    /// Returns the counts so far, also of channels that are closed.
    pub(crate) fn report(&self) -> PeerReport {
        let mut report = PeerReport {
            name: self.name.to_string(),
            state: self.state().to_owned(),
            chunk_bytes: self.chunk_bytes(),
            ..PeerReport::default()
        };
        let (mut open_sends, mut open_recvs, mut open_tcps) = (Vec::new(), Vec::new(), Vec::new());
        let (messages, record) = match &self.state {
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => return report,
            ConnectionState::Gone(gone) => (gone.messages, &gone.record),
            ConnectionState::Linked(connection) => {
                report.transport = Some((*connection.transport).clone());
                report.link_encrypted = connection.link.is_encrypted();
                report.link_tcp = connection.link.tcp_stats();
                report.operations = connection.protocol.operation_count();
                report.announced = connection.protocol.posted_receives();
                report.unannounced = connection.protocol.queued_receives();
                report.eager_unreceived = connection.protocol.unreceived();
                report.eager_kept = connection.protocol.kept();
                open_sends.extend(connection.send_stats());
                open_recvs.extend(connection.recv_stats());
                open_tcps.extend(connection.tcp_stats());
                (connection.protocol.messages(), &connection.record)
            }
        };
        report.messages_sent = messages.sent;
        report.messages_received = messages.received;
        report.eager_sent = messages.sent_on_link;
        report.eager_received = messages.received_on_link;
        report.one_sided = messages.one_sided;
        report.errors = record.errors;
        let channels = record.nics.iter().enumerate().map(|(index, nic)| ChannelReport {
            nic: nic.to_string(),
            send: of_channel(&open_sends, &record.sends, index),
            recv: of_channel(&open_recvs, &record.recvs, index),
            tcp: of_channel(&open_tcps, &record.tcps, index),
            lost: record.lost.iter().filter(|lost| usize::from(**lost) == index).count() as u64,
        });
        report.channels = channels.collect();
        report
    }

    /// Adds what was sent, and received, on its open channels.
    pub(crate) fn add_moved(&self, [sent, received]: &mut [ChannelStats; 2]) {
        if let Some(connection) = self.connection() {
            connection.send_lanes.iter().for_each(|lane| sent.add(&lane.stats));
            connection.recv_lanes.iter().for_each(|lane| received.add(&lane.stats));
        }
    }
}

/// Returns what is known of a channel: of its open lane, or else of the closed one.
fn of_channel<T: Copy + Default>(open: &[T], closed: &[T], index: usize) -> T {
    open.get(index).or_else(|| closed.get(index)).copied().unwrap_or_default()
}
