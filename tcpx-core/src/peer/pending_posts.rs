//! State of a peer before its link: operations and notifications that wait for it, and the
//! connection and session that it is.

use std::sync::Arc;

use tcpx_protocol::frames::conn_info::{ConnInfo, SessionId};
use tcpx_protocol::frames::handshake_frame::Introduction;
use tcpx_protocol::frames::hello::Nonce;
use tcpx_protocol::peer::one_sided::NewRequest;
use tcpx_protocol::types::{Direction, RegistrationKey, TransferKey, note_cost};

use super::connection::Connection;
use super::resources::Ledger;
use crate::control::connector::Connector;
use crate::error::Error;

/// Operations and notifications, in the order in which they were posted.
#[derive(Debug, Default)]
pub(super) struct PendingPosts {
    requests: Vec<NewRequest>,
    notes: Vec<Arc<[u8]>>,
    /// Cost of the notifications together.
    note_cost: u64,
}

impl PendingPosts {
    /// Adds an operation, whose registrations are in use for it.
    pub(super) fn push(&mut self, request: NewRequest) {
        self.requests.push(request);
    }

    /// Adds a notification, if all that wait cost no more than `room`: what the protocol has for
    /// those that wait.
    ///
    /// # Errors
    /// Cost of the notifications that wait already.
    pub(super) fn push_note(&mut self, note: Arc<[u8]>, room: u64) -> Result<(), u64> {
        let cost = self.note_cost + note_cost(note.len());
        if cost > room {
            return Err(self.note_cost);
        }
        self.note_cost = cost;
        self.notes.push(note);
        Ok(())
    }

    /// Hands everything over to the protocol: the link is proven.
    pub(super) fn hand_over(&mut self, connection: &mut Connection) {
        let Self { requests, notes, .. } = std::mem::take(self);
        for request in requests {
            connection.protocol.handle_request(request);
        }
        for note in notes {
            // The notification finds room: see `push_note`.
            connection.protocol.handle_note(note);
        }
    }

    /// Returns the transfers with operations on a registration.
    pub(super) fn transfers_on(&self, registration: RegistrationKey) -> Vec<TransferKey> {
        let uses = |request: &&NewRequest| request.list.pieces.owners().contains(&registration);
        self.requests.iter().filter(uses).map(|request| request.transfer).collect()
    }

    /// Gives up, for the program, what belongs to a transfer.
    pub(super) fn cancel(&mut self, transfer: TransferKey, ledger: &mut Ledger) {
        for request in self.requests.extract_if(.., |request| request.transfer == transfer) {
            ledger.failed(transfer, request.list.pieces.owners(), || Error::Cancelled);
        }
    }

    /// Ends everything that waits: the peer has ended. Returns the number of lost notifications.
    pub(super) fn fail(
        &mut self,
        ledger: &mut Ledger,
        error: impl Fn(Direction) -> Error,
    ) -> usize {
        let Self { requests, notes, .. } = std::mem::take(self);
        for NewRequest { transfer, list, .. } in requests {
            ledger.failed(transfer, list.pieces.owners(), || error(list.direction()));
        }
        notes.len()
    }
}

/// Origin of a peer.
#[derive(Debug)]
pub(crate) struct PeerOrigin {
    /// The session at the other end.
    pub(crate) session: SessionId,
    /// Number of this connection of the two sessions, in the count of the end that began it.
    pub(crate) connection: u16,
    /// Introduction of a peer that came in; `None`: this end has dialled.
    introduction: Option<Box<Introduction>>,
    /// The hello that the other end has given up for this connection.
    pub(crate) given_up: Option<Nonce>,
}

impl PeerOrigin {
    /// Makes the origin of a peer that this end dials.
    pub(crate) fn outbound(connector: &Connector) -> Self {
        let (session, connection) = (connector.info().session, connector.connection());
        Self { session, connection, introduction: None, given_up: None }
    }

    /// Makes the origin of a peer that has come in.
    pub(crate) fn inbound(introduction: Box<Introduction>) -> Self {
        Self {
            session: *introduction.session(),
            connection: introduction.connection(),
            introduction: Some(introduction),
            given_up: None,
        }
    }

    /// Returns the introduction with which it came in; nothing if it did not.
    pub(crate) fn introduction(&self) -> Option<&Introduction> {
        self.introduction.as_deref()
    }

    /// Returns whether it has come in from the session that this connection info leads to.
    pub(crate) fn came_from(&self, info: &ConnInfo) -> bool {
        self.introduction.as_ref().is_some_and(|introduction| introduction.is_of(info))
    }
}
