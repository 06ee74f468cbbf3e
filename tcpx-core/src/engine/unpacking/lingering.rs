//! Remains of one ended peer, until its chunks are copied and its comms closed.

use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::peer::message::{Message, NewOperation};
use tcpx_protocol::types::{Direction, RegistrationKey};

use crate::error::Error;
use crate::peer::Peer;
use crate::peer::ending::{HeldEnd, Leftover};
use crate::peer::resources::Ledger;
use crate::plugin::comm::{ReturnedHandles, close_comms};
use crate::transfer::batch::BatchNumber;
use crate::types::{ObservedTime, PeerName};
use crate::workers::{Ticket, Workers};

/// Time for which the operations of an ended peer wait for copies and comms that use their memory.
pub(crate) const UNPACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Remains of one peer.
#[derive(Debug)]
pub(super) struct LingeringPeer {
    pub(super) name: PeerName,
    /// Session at the other end of the peer.
    session: SessionId,
    /// Reason why the peer ended.
    error: Error,
    leftover: Leftover,
    /// Time since the first check.
    waits: Option<ObservedTime>,
    /// Registrations of operations that have ended although their memory may still be used.
    held: Option<Vec<RegistrationKey>>,
}

/// State of the remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LingerState {
    /// No copy touches the memory any more: the receive comms can be closed.
    Copied,
    /// Nothing touches the memory any more.
    Finished,
    /// The remains have waited too long: the operations end.
    Overdue,
    /// The remains have waited too long for comms that are being closed, and no memory of
    /// operations is in use: they can be left behind.
    LeftBehind,
    /// The remains go on waiting.
    Waits,
}

impl LingeringPeer {
    pub(super) fn new(peer: &Peer, error: Error, leftover: Leftover) -> Self {
        let (name, session) = (peer.name().clone(), *peer.session());
        Self { name, session, error, leftover, waits: None, held: None }
    }

    /// Returns whether bytes that this session was writing may still reach the memory.
    pub(super) fn is_written_by(&self, session: &SessionId) -> bool {
        let is_write =
            |it: &Message| it.serves().is_some() && it.posted.direction == Direction::Receive;
        let is_served = |end: &HeldEnd| matches!(end, HeldEnd::Served(_));
        let Leftover { operations, ended, .. } = &self.leftover;
        self.session == *session && (operations.iter().any(is_write) || ended.iter().any(is_served))
    }

    /// Records that the end of the batch will never be known.
    pub(super) fn never_ends(&mut self) {
        self.leftover.until = BatchNumber::NEVER;
    }

    /// Returns whether copies still use the memory when batches up to `reached` have finished, or
    /// the operations have ended although something uses it.
    pub(super) fn is_held(&self, reached: BatchNumber) -> bool {
        !self.is_copied(reached) || self.has_given_up()
    }

    fn is_copied(&self, reached: BatchNumber) -> bool {
        self.leftover.until <= reached
    }

    /// Returns what the remains still wait for, in words.
    pub(super) fn waits_for(&self, reached: BatchNumber) -> &'static str {
        match self.is_copied(reached) {
            true => "its comms are still being closed",
            false => "its chunks are still being unpacked or gathered",
        }
    }

    /// Returns whether the operations have ended although copies still use their memory.
    pub(super) fn is_given_up_copying(&self, reached: BatchNumber) -> bool {
        self.has_given_up() && !self.is_copied(reached)
    }

    /// Returns whether the operations have ended, and only memory waits.
    fn has_given_up(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the state of the remains, when batches up to `reached` have finished.
    pub(super) fn check(&mut self, reached: BatchNumber, now: Instant) -> LingerState {
        let waits = self.waits.get_or_insert_with(|| ObservedTime::since(now));
        let is_late = waits.look(now) >= UNPACK_TIMEOUT;
        let is_hopeless = self.leftover.until == BatchNumber::NEVER;
        match self.is_copied(reached) {
            true if !self.leftover.lanes.is_empty() => LingerState::Copied,
            true if self.leftover.tickets.iter().all(Ticket::is_done) => LingerState::Finished,
            true if is_late && self.uses_nothing() => LingerState::LeftBehind,
            _ if !self.has_given_up() && (is_hopeless || is_late) => LingerState::Overdue,
            _ => LingerState::Waits,
        }
    }

    /// Returns whether no operation's memory is in use.
    fn uses_nothing(&self) -> bool {
        let Leftover { operations, ended, .. } = &self.leftover;
        operations.is_empty() && ended.is_empty() && self.held.as_ref().is_none_or(Vec::is_empty)
    }

    /// Has the receive comms closed.
    pub(super) fn close_lanes(&mut self, ledger: &mut Ledger, workers: &Workers) {
        let lanes = self.leftover.lanes.drain(..);
        let comms: Vec<_> = lanes.map(|lane| lane.close(&mut ledger.registrations)).collect();
        self.leftover.tickets.push(close_comms(comms, workers));
    }

    /// Ends everything: nothing touches the memory any more.
    pub(super) fn end(mut self, ledger: &mut Ledger) {
        self.end_operations(ledger, |_| true);
        self.leftover.ended.drain(..).for_each(|end| end.end(ledger));
        for buffer in self.leftover.link_buffers.drain(..) {
            ledger.link_buffers.give_back(buffer);
        }
        let registrations = &mut ledger.registrations;
        for staging in self.leftover.stagings {
            ledger.staging.give_back(staging);
        }
        if let Some(held) = self.held {
            tracing::warn!(peer = %self.name, "nothing of the peer is under way any more after all; its memory is free");
            held.into_iter().for_each(|key| registrations.end(key));
        }
    }

    /// Ends the operations, and keeps their memory.
    pub(super) fn give_up_waiting(&mut self, ledger: &mut Ledger, reached: BatchNumber) {
        let is_own = |message: &Message| message.serves().is_none();
        let own = self.leftover.operations.iter().filter(|message| is_own(message));
        let of_ended = self.leftover.ended.iter().flat_map(HeldEnd::owners);
        let held: Vec<_> = own.flat_map(Message::owners).chain(of_ended).copied().collect();
        held.iter().for_each(|key| ledger.registrations.begin(*key));
        tracing::error!(
            peer = %self.name, error = %self.error, operations = held.len(),
            channels = self.leftover.lanes.len(), why = self.waits_for(reached),
            "a peer that ended still uses memory; its comms and registrations stay as they are"
        );
        self.held = Some(held);
        // Requests of the peer keep its exports in use: no operation waits for their end.
        self.end_operations(ledger, is_own);
        let own = |end: &mut HeldEnd| matches!(end, HeldEnd::Operation { .. });
        for end in self.leftover.ended.extract_if(.., own) {
            end.failed(&self.error, ledger);
        }
    }

    fn end_operations(&mut self, ledger: &mut Ledger, is_meant: impl Fn(&Message) -> bool) {
        for message in self.leftover.operations.extract_if(.., |message| is_meant(message)) {
            let NewOperation { transfer, direction, .. } = message.posted;
            match message.serves() {
                None => {
                    let error = || self.error.seen_by(direction);
                    ledger.failed(transfer, message.owners(), error);
                }
                Some(uses) => {
                    ledger.exports.end_all(uses);
                    ledger.exports.forget_uses(uses);
                }
            }
        }
    }

    /// Collects the calls for handles that the comms gave out.
    pub(super) fn take_back(&self, handles: &mut ReturnedHandles) {
        self.leftover.lanes.iter().for_each(|lane| handles.take_back(lane.id, lane.comm()));
    }

    /// Returns whether the remains keep a registration in use.
    pub(super) fn holds(&self, key: RegistrationKey) -> bool {
        let Leftover { operations, ended, .. } = &self.leftover;
        operations.iter().any(|message| message.owners().contains(&key))
            || ended.iter().any(|end| end.owners().contains(&key))
            || self.held.as_ref().is_some_and(|held| held.contains(&key))
    }
}
