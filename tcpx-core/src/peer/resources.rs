//! State that every peer of a session reads and writes.
//!
//! Also the gate that shows whether operations may be posted to a peer. Any thread may read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tcpx_protocol::exports::table::Exports;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{RegistrationKey, TransferKey};

use super::session_context::SessionContext;
use crate::completions::notification_queue::NotificationQueue;
use crate::error::Error;
use crate::plugin::registrations::Registrations;
use crate::transfer::batch::Batch;
use crate::transfer::link_buffers::LinkBuffers;
use crate::transfer::staging_pool::StagingPool;
use crate::transfer::transfers::Transfers;
use crate::workers::Workers;

/// State of the engine that a peer uses while it is driven.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) session: SessionContext,
    pub(crate) ledger: Ledger,
    pub(crate) batch: Batch,
    pub(crate) workers: Workers,
}

/// Tables of the session: transfers, registered memory, exports, staging memory and notifications.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) transfers: Transfers,
    pub(crate) registrations: Registrations,
    pub(crate) exports: Exports,
    pub(crate) staging: StagingPool,
    pub(crate) link_buffers: LinkBuffers,
    /// Notifications of peers for the program.
    pub(crate) notifications: Arc<NotificationQueue>,
}

impl Ledger {
    /// Returns the number of operations that use a registration: posted by the program, or asked
    /// for by peers.
    pub(crate) fn uses(&self, id: MemoryId) -> usize {
        self.registrations.operations(id) + self.exports.active_of(id)
    }

    /// Counts an operation as done: its memory, of these registrations, is not used any more.
    #[inline]
    pub(crate) fn done(&mut self, transfer: TransferKey, owners: &[RegistrationKey]) {
        owners.iter().for_each(|owner| self.registrations.end(*owner));
        self.transfers.done(transfer);
    }

    /// Counts an operation as failed: its memory is not used any more. The error is made only if
    /// the transfer has none.
    pub(crate) fn failed(
        &mut self,
        transfer: TransferKey,
        owners: &[RegistrationKey],
        error: impl FnOnce() -> Error,
    ) {
        owners.iter().for_each(|owner| self.registrations.end(*owner));
        self.transfers.failed(transfer, error);
    }
}

/// Largest number of operations that all threads together may queue before the engine takes them.
pub(crate) const MAX_QUEUED_POSTS: usize = 1024;

/// Gate of posts to a peer. The thread that holds the engine writes it, so a reader may see a state
/// that is a step old.
#[derive(Debug, Default)]
pub(crate) struct PostGate {
    sends: AtomicBool,
    receives: AtomicBool,
}

impl PostGate {
    pub(super) fn set(&self, sends: bool, receives: bool) {
        self.sends.store(sends, Ordering::Relaxed);
        self.receives.store(receives, Ordering::Relaxed);
    }

    /// Returns whether sends are taken.
    pub(crate) fn takes_sends(&self) -> bool {
        self.sends.load(Ordering::Relaxed)
    }

    /// Returns whether receives are taken, [`MAX_QUEUED_POSTS`] of them.
    pub(crate) fn takes_receives(&self) -> bool {
        self.receives.load(Ordering::Relaxed)
    }
}
