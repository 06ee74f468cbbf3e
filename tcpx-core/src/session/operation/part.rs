//! One operation of one session: all of what a program has prepared, or a part of it.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tcpx_protocol::types::device::Device;
use tcpx_protocol::types::{PreparedKey, TransferKey};

use super::super::shared::Shared;
use super::super::wait::WaitLimit;
use crate::engine::errands::Errands;
use crate::engine::operating::OperationKeys;
use crate::error::{Error, Result};
use crate::transfer::post_options::PostOptions;
use crate::transfer::transfer_cell::TransferCell;

/// It is let go of when this is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    shared: Arc<Shared>,
    pub(super) prepared: PreparedKey,
    pub(super) transfer: TransferKey,
    pub(super) cell: Arc<TransferCell>,
    /// Whose memory it is at this end.
    pub(super) device: Device,
}

impl Part {
    pub(super) fn new(shared: Arc<Shared>, keys: OperationKeys, device: Device) -> Self {
        let OperationKeys { prepared, transfer, cell } = keys;
        Self { shared, prepared, transfer, cell, device }
    }

    /// Where its engine is asked for something by those who may not wait for it.
    pub(super) fn errands(&self) -> Result<Arc<Errands>> {
        Ok(Arc::clone(self.shared.engine()?.errands()))
    }

    pub(super) fn post(&self, options: PostOptions<'_>) -> Result<()> {
        self.shared.engine()?.post_operation(self.prepared, self.transfer, options)
    }

    pub(super) fn cancel(&self) -> Result<()> {
        self.shared.engine()?.cancel(self.transfer);
        Ok(())
    }

    /// Waits until it has ended, and makes progress meanwhile.
    pub(super) fn wait(&self, limit: WaitLimit) -> Result<()> {
        self.shared.wait_for_transfer(
            limit,
            |_| match self.cell.outcome() {
                Poll::Ready(outcome) => outcome.map(Poll::Ready),
                Poll::Pending => Ok(Poll::Pending),
            },
            |engine, waited, now| engine.transfer_deadline(self.transfer, waited, now),
        )
    }

    /// One round of progress, unless another thread makes it.
    pub(super) fn progress(&self) -> Result<()> {
        self.shared.try_progress()
    }

    /// What a wait of this limit that is over was waiting for.
    pub(super) fn deadline(&self, limit: WaitLimit, now: Instant) -> Result<Error> {
        Ok(self.shared.engine()?.transfer_deadline(self.transfer, limit.waited(now), now))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        match self.shared.engine() {
            Ok(mut engine) => engine.release_operation(self.prepared, self.transfer),
            Err(_) => self.shared.leave(),
        }
    }
}
