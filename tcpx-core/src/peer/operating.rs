//! A connection's part in operations on memory of either end, and in notifications.

use std::sync::Arc;

use super::commons::Commons;
use super::connection::Connection;
use super::protocol::one_sided::NewRequest;
use crate::error::{Error, Result};
use crate::exports::table::ExportKey;
use crate::types::PreparedKey;

impl Connection {
    /// Posts an operation whose registrations are in use for it.
    pub(crate) fn post_request(&mut self, request: NewRequest, cx: &mut Commons) -> Result<()> {
        self.protocol.handle_request(request);
        self.act(cx)
    }

    /// An operation's program has let go of it.
    pub(crate) fn unprepare(&mut self, prepared: PreparedKey) {
        self.protocol.handle_unprepared(prepared);
    }

    /// Sends a notification, behind those that wait.
    ///
    /// # Errors
    /// [`Error::NotificationsFull`]: too many wait.
    pub(crate) fn notify(&mut self, note: Arc<[u8]>, cx: &mut Commons) -> Result<()> {
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

    /// Whether the peer uses any of these exports.
    pub(crate) fn serves(&self, exports: &[ExportKey]) -> bool {
        self.protocol.serves(exports)
    }

    /// Exports are taken back. Whether the peer uses any.
    pub(crate) fn revoke(&mut self, exports: &[ExportKey]) -> bool {
        self.protocol.handle_revoked(exports)
    }
}
