//! What every peer of a session reads and writes.

use super::protocol::operation::Operation;
use super::session_context::SessionContext;
use crate::error::Error;
use crate::plugin::registrations::Registrations;
use crate::transfer::batch::Batch;
use crate::transfer::transfers::Transfers;

/// Handed to a peer while it is driven.
#[derive(Debug)]
pub(crate) struct Commons {
    pub(crate) session: SessionContext,
    pub(crate) ledger: Ledger,
    pub(crate) batch: Batch,
}

/// The session's books: transfers, and the memory that their operations use.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) transfers: Transfers,
    pub(crate) registrations: Registrations,
}

impl Ledger {
    /// An operation has ended: its memory is not used any more.
    pub(crate) fn complete(&mut self, operation: &Operation, error: Option<Error>) {
        self.registrations.end(operation.posted.span.registration);
        self.transfers.ended(operation.posted.transfer, error);
    }
}
