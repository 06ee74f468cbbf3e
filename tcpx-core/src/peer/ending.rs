//! End of a peer: what ends with it at once, and what is left over: comms that are being closed,
//! and memory that they and copies under way still use.

use tcpx_diagnosis::table::requests;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::peer::message::{Message, NewOperation};
use tcpx_protocol::stats::MessageStats;
use tcpx_protocol::types::RegistrationKey;

use super::connection::{ChannelRecord, ClosingComms, Connection};
use super::resources::Resources;
use super::{ConnectionState, EndedPeer, Peer};
use crate::error::{Departure, Error};
use crate::plugin::comm::close_comms;
use crate::transfer::batch::BatchNumber;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::workers::Ticket;

impl Peer {
    /// Ends everything with this peer. What has no counterpart ends at once. Comms are handed over
    /// to be closed, and until they are, operations with a counterpart, whose memory they may use,
    /// are left over. So are receive comms with chunks that are still being unpacked, and staging
    /// buffers that are still written: that is all after batch `reached`.
    pub(crate) fn end(
        &mut self,
        why: Error,
        cx: &mut Resources,
        reached: BatchNumber,
    ) -> Option<Leftover> {
        let is_left = self.is_left;
        let lost = self.pending.fail(&mut cx.ledger, |direction| match is_left {
            true => Error::Closed,
            false => why.seen_by(direction),
        });
        if lost > 0 {
            tracing::warn!(peer = %self.name, lost, "notifications are lost with their peer");
        }
        let gone = |agreement, messages, record| {
            ConnectionState::Gone(Box::new(EndedPeer {
                why: why.clone(),
                agreement,
                messages,
                record,
            }))
        };
        let nothing = gone(None, MessageStats::default(), ChannelRecord::default());
        let mut connection = match std::mem::replace(&mut self.state, nothing) {
            ConnectionState::Linked(connection) => connection,
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => return None,
            ConnectionState::Gone(before) => {
                self.state = ConnectionState::Gone(before);
                return None;
            }
        };
        connection.execute_remaining_actions(&mut cx.ledger);
        if !matches!(why, Error::PeerGone { how: Departure::Goodbye, .. }) {
            connection.link.queue(&Frame::Abort(why.text_for_peer()));
        }
        let _ = connection.flush();
        connection.protocol.let_go_of_notes();
        let dropped = cx.ledger.notifications.remove_sender(self.key);
        if dropped > 0 {
            tracing::warn!(
                dropped,
                id = %requests::NOTIFICATIONS_DROPPED.code,
                "the program does not take notifications: of peers that have ended, those that \
                 left most of them have left too many, and theirs are dropped"
            );
        }
        let is_left = |batch: &BatchNumber| *batch > reached;
        let gathering = connection.send_lanes.iter().filter_map(SendLane::newest_batch).max();
        let unpacking = connection.recv_lanes.iter().filter_map(RecvLane::newest_batch).max();
        let unpacking = unpacking.filter(is_left);
        let until = gathering.filter(is_left).max(unpacking).unwrap_or(BatchNumber::NONE);

        let (sends, mut stagings) = connection.end_sends(&mut cx.ledger);
        let mut tickets = Vec::new();
        let (mut lanes, mut receives) = (Vec::new(), Vec::new());
        let mut until = until;
        for lost in &mut connection.lost {
            tickets.append(&mut lost.tickets);
            stagings.append(&mut lost.stagings);
            until = until.max(lost.until);
            lanes.extend(lost.unpacking.take().map(|lane| *lane));
        }
        match unpacking {
            Some(_) => lanes.extend(connection.take_recvs()),
            None => receives = connection.end_recvs(&mut cx.ledger),
        }
        let Connection { mut protocol, mut record, setup, closing, .. } = *connection;
        let (agreement, mut messages) = (protocol.agreement(), protocol.messages());
        let unsent = protocol.unsent_notes();
        if unsent > 0 {
            messages.one_sided.notifications_unsent += unsent as u64;
            tracing::warn!(
                peer = %self.name, unsent,
                "it has ended, and had no room for these notifications before: they are lost"
            );
        }
        let mut unfinished = protocol.take_operations();
        record.errors += unfinished.len() as u64;
        let mut operations = Vec::new();
        for (_, message) in unfinished.drain() {
            if message.uses_memory() {
                operations.push(message);
                continue;
            }
            let NewOperation { transfer, direction, .. } = message.posted;
            // Operations without a counterpart were withdrawn when the program left.
            let error = || if self.is_left { Error::Closed } else { why.seen_by(direction) };
            cx.ledger.failed(transfer, message.owners(), error);
        }
        // The memory of a large backlog is freed elsewhere as well. Comms that are being connected
        // use no memory of operations: no thread waits for them.
        let workers = &cx.workers;
        workers.close((setup, protocol, unfinished));
        tickets.extend([close_comms(sends, workers), close_comms(receives, workers)]);
        if let Some(ClosingComms { ticket, stagings: of_closing, .. }) = closing {
            tickets.push(ticket);
            stagings.extend(of_closing);
        }
        self.state = gone(Some(agreement), messages, record);
        Some(Leftover { lanes, tickets, stagings, operations, until })
    }
}

/// Comms and memory that an ended peer leaves over.
#[derive(Debug)]
pub(crate) struct Leftover {
    /// Lanes whose chunks are being unpacked. Their comms close after that.
    pub(crate) lanes: Vec<RecvLane>,
    /// Tickets of the other comms, which are being closed.
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) stagings: Vec<RegistrationKey>,
    /// Operations whose memory a comm or a copy may still write or read, of this end's program and
    /// of its peer's.
    pub(crate) operations: Vec<Message>,
    /// Batch after which no copy uses any of it.
    pub(crate) until: BatchNumber,
}
