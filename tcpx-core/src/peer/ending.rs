//! End of a peer: what ends with it at once, and what is left over: comms that are being closed,
//! and memory that they and copies under way still use.

use std::sync::Arc;

use tcpx_diagnosis::table::requests;
use tcpx_protocol::exports::exported_range::ExportKey;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::peer::action::{Action, Completion, Outcome};
use tcpx_protocol::peer::message::{Message, NewOperation, State};
use tcpx_protocol::peer::one_sided::local_lists::PreparedList;
use tcpx_protocol::stats::MessageStats;
use tcpx_protocol::types::{Direction, RegistrationKey, TransferKey};

use super::connection::{ChannelRecord, ClosingComms, Connection};
use super::resources::{Ledger, Resources};
use super::{ConnectionState, EndedPeer, Peer};
use crate::error::{Departure, Error};
use crate::plugin::comm::close_comms;
use crate::transfer::batch::BatchNumber;
use crate::transfer::link_buffers::LinkBuffer;
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
        let mut messages = MessageStats::default();
        messages.one_sided.notifications_unsent = lost as u64;
        let nothing = gone(None, messages, ChannelRecord::default());
        let mut connection = match std::mem::replace(&mut self.state, nothing) {
            ConnectionState::Linked(connection) => connection,
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => return None,
            ConnectionState::Gone(before) => {
                self.state = ConnectionState::Gone(before);
                return None;
            }
        };
        let ended = connection.execute_remaining_actions(reached, &mut cx.ledger);
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
        let copies = std::mem::take(&mut connection.copies);
        let mut until = until.max(copies.until());
        let link_buffers = copies.into_buffers();
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
            // The bytes of a write that is sent may still be on their way to the link's buffers.
            let is_sent = matches!(message.state, State::AwaitsAnswer | State::Ending { .. });
            let is_copied = !link_buffers.is_empty() && is_sent;
            if message.uses_memory() || is_copied {
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
        Some(Leftover { lanes, tickets, stagings, operations, ended, link_buffers, until })
    }
}

impl Peer {
    /// Returns whether notifications were lost with it.
    pub(crate) fn has_lost_notes(&self) -> bool {
        matches!(&self.state, ConnectionState::Gone(gone) if gone.messages.one_sided.notifications_unsent > 0)
    }
}

impl Connection {
    /// Executes the remaining actions that need no peer, after an action has failed. Returns those
    /// that wait for a copy of the link, where one is under way after batch `reached`.
    fn execute_remaining_actions(
        &mut self,
        reached: BatchNumber,
        ledger: &mut Ledger,
    ) -> Vec<HeldEnd> {
        let mut held = Vec::new();
        let waiting = self.copies.take_actions(reached, &mut ledger.link_buffers);
        for action in waiting.into_iter().chain(self.protocol.take_actions()) {
            match action {
                Action::Served(uses) if self.is_copying() => held.push(HeldEnd::Served(uses)),
                Action::Served(uses) => ledger.exports.end_all(&uses),
                Action::TakeUnexpected { number, into } => {
                    self.take_unexpected(number, into, ledger)
                }
                Action::Complete(completion, list) if self.is_copying() => {
                    held.push(self.held_end(&completion, list.as_deref()));
                }
                Action::Complete(completion, list) => {
                    self.complete(&completion, list.as_deref(), ledger);
                }
                Action::Send(_)
                | Action::SendMessage { .. }
                | Action::SendWithPayload { .. }
                | Action::Note { .. }
                | Action::Refused(_)
                | Action::OpenChannels
                | Action::Connect(_)
                | Action::Open
                | Action::Credit(_)
                | Action::Unpacked(_)
                | Action::CloseChannel { .. }
                | Action::Redeal { .. }
                | Action::PrepareStaging { .. }
                | Action::SendChunks(_)
                | Action::ReceiveChunks(_)
                | Action::CheckHost
                | Action::CountSent
                | Action::CloseSends
                | Action::CloseReceives
                | Action::End { .. } => {}
            }
        }
        held
    }

    /// Returns the end of an operation, for the time after a copy.
    fn held_end(&mut self, completion: &Completion, list: Option<&PreparedList>) -> HeldEnd {
        let Completion { transfer, registration, direction, outcome, .. } = *completion;
        let owners = list.map_or_else(|| vec![registration], |list| list.pieces.owners().to_vec());
        let is_done = outcome == Outcome::Done;
        self.record.errors += u64::from(!is_done);
        let error = (!is_done).then(|| self.error_of(completion, list));
        HeldEnd::Operation { transfer, direction, owners, error }
    }
}

/// End that an operation or a request has come to, for the time when no copy uses its memory.
#[derive(Debug)]
pub(crate) enum HeldEnd {
    /// Of an operation of the program. `error`: its failure, if it has failed.
    Operation {
        transfer: TransferKey,
        direction: Direction,
        owners: Vec<RegistrationKey>,
        error: Option<Error>,
    },
    /// Of a request of the peer that used these exports.
    Served(Arc<[ExportKey]>),
}

impl HeldEnd {
    /// Returns the registrations that an operation of the program keeps in use.
    pub(crate) fn owners(&self) -> &[RegistrationKey] {
        match self {
            Self::Operation { owners, .. } => owners,
            Self::Served(_) => &[],
        }
    }

    /// Fails an operation whose bytes are not known to be in place, because its peer ended so.
    pub(crate) fn failed(self, why: &Error, ledger: &mut Ledger) {
        let Self::Operation { transfer, direction, owners, error } = self else { return };
        ledger.failed(transfer, &owners, || error.unwrap_or_else(|| why.seen_by(direction)));
    }

    /// Ends it: nothing uses its memory.
    pub(crate) fn end(self, ledger: &mut Ledger) {
        match self {
            Self::Operation { transfer, owners, error: None, .. } => {
                ledger.done(transfer, &owners);
            }
            Self::Operation { transfer, owners, error: Some(error), .. } => {
                ledger.failed(transfer, &owners, || error);
            }
            Self::Served(uses) => {
                ledger.exports.end_all(&uses);
                ledger.exports.forget_uses(&uses);
            }
        }
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
    /// Ends of operations whose bytes may be those that copies of the link move.
    pub(crate) ended: Vec<HeldEnd>,
    /// Buffers of those copies.
    pub(crate) link_buffers: Vec<LinkBuffer>,
    /// Batch after which no copy uses any of it.
    pub(crate) until: BatchNumber,
}
