//! A connection's part in operations on memory of either end, and in notifications.

use std::sync::Arc;

use tcpx_protocol::exports::joint_uses::ExportKey;
use tcpx_protocol::peer::one_sided::NewRequest;
use tcpx_protocol::types::{PreparedKey, RegistrationKey, TransferKey};

use super::commons::Commons;
use super::connection::Connection;
use super::{Peer, State};
use crate::error::{Error, Result};

impl Peer {
    /// Checks that operations and notifications go to it, now or when it is up.
    ///
    /// # Errors
    /// [`Error::Closed`] once the program has left it; [`Error::PeerState`] while one of the ends
    /// leaves; what it ended with.
    pub(crate) fn check_requests(&self) -> Result<()> {
        match &self.state {
            _ if self.is_left => Err(Error::Closed),
            State::Dialling(_) | State::Welcomed => Ok(()),
            State::Linked(connection) => connection.check_requests(),
            State::Gone(gone) => Err(gone.why.clone()),
        }
    }

    /// Posts an operation whose registrations are in use for it.
    pub(crate) fn post_request(&mut self, request: NewRequest, cx: &mut Commons) -> Result<()> {
        match &mut self.state {
            State::Linked(connection) => connection.post_request(request, cx)?,
            _ => self.waiting.push(request),
        }
        Ok(())
    }

    /// Whether bytes of operations are to be sent on the link.
    pub(crate) fn sends_parts(&self) -> bool {
        matches!(&self.state, State::Linked(connection) if connection.protocol.sends_parts())
    }

    /// Sends a notification, behind those that wait.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`]: too many wait.
    pub(crate) fn notify(&mut self, note: Arc<[u8]>, cx: &mut Commons) -> Result<()> {
        if let State::Linked(connection) = &mut self.state {
            return connection.notify(note, cx);
        }
        let room = cx.session.options.notification_bytes.into();
        self.waiting.push_note(note, room).map_err(|queued_bytes| Error::NotificationsFull {
            peer: self.name.to_string(),
            queued_bytes,
        })
    }

    /// Writes what was said to it, as far as the system takes it. Returns whether there is a link.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        self.connection_mut().map_or(Ok(false), |connection| connection.flush().map(|_| true))
    }

    /// Returns the transfers of the program with operations on a registration.
    pub(crate) fn transfers_on(&self, registration: RegistrationKey) -> Vec<TransferKey> {
        match &self.state {
            State::Linked(connection) => connection.protocol.transfers_on(registration),
            _ => self.waiting.transfers_on(registration),
        }
    }

    /// Withdraws what was posted to a transfer and has no counterpart.
    pub(crate) fn cancel(&mut self, transfer: TransferKey, cx: &mut Commons) -> Result<()> {
        self.waiting.cancel(transfer, &mut cx.ledger);
        self.connection_mut().map_or(Ok(()), |connection| connection.cancel(transfer, cx))
    }

    /// The same for what has taken too long.
    pub(crate) fn overdue(&mut self, transfer: TransferKey, cx: &mut Commons) -> Result<()> {
        self.waiting.cancel(transfer, &mut cx.ledger);
        self.connection_mut().map_or(Ok(()), |connection| connection.overdue(transfer, cx))
    }
}

impl Connection {
    /// Posts an operation whose registrations are in use for it.
    fn post_request(&mut self, request: NewRequest, cx: &mut Commons) -> Result<()> {
        self.protocol.handle_request(request);
        // A post does not take as long as its bytes: its parts are left to the next round.
        self.act_with(0, cx)
    }

    /// An operation's program has let go of it.
    pub(crate) fn unprepare(&mut self, prepared: PreparedKey) {
        self.protocol.handle_unprepared(prepared);
    }

    /// Sends a notification, behind those that wait.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`]: too many wait.
    fn notify(&mut self, note: Arc<[u8]>, cx: &mut Commons) -> Result<()> {
        if !self.protocol.handle_note(note) {
            let queued_bytes = self.protocol.queued_notes();
            return Err(Error::NotificationsFull { peer: self.name.to_string(), queued_bytes });
        }
        self.act(cx)
    }

    /// The program has taken notifications of this peer that cost so much, all in all. What is said
    /// about it goes with the next step.
    pub(crate) fn notes_taken(&mut self, cost: u64) {
        self.protocol.handle_notes_taken(cost);
    }

    /// Returns whether operations of either end use a registration.
    pub(crate) fn uses(&self, registration: RegistrationKey) -> bool {
        self.protocol.uses(registration)
    }

    /// Whether the peer uses any of these exports.
    pub(crate) fn serves(&self, exports: &[ExportKey]) -> bool {
        self.protocol.serves(exports)
    }

    /// Exports are taken back. Whether the peer uses any.
    pub(crate) fn revoke(&mut self, exports: &[ExportKey]) -> bool {
        self.protocol.handle_revoked(exports)
    }
}
