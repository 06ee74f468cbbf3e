//! Transfers and operations that may take only so long.

use std::time::{Duration, Instant};

use tcpx_protocol::types::TransferKey;

use super::Engine;
use super::deadlines::Overdue;
use crate::error::{Error, Result};
use crate::transfer::transfer_cell::TransferCell;

/// A round of progress gives up no more than so many: others wait for the lock.
const MOST_AT_ONCE: usize = 64;

impl Engine {
    /// Rounds of a transfer that begin from now on may take so long.
    pub(crate) fn set_timeout(&mut self, key: TransferKey, limit: Option<Duration>) -> Result<()> {
        self.commons.ledger.transfers.get(key)?;
        self.deadlines.set_limit(key, limit);
        Ok(())
    }

    /// Something was posted to a transfer, which perhaps began a round. `limit`: how long it may
    /// take, if that is not what all of the transfer's may.
    pub(super) fn begin_time(
        &mut self,
        key: TransferKey,
        cell: &TransferCell,
        limit: Option<Duration>,
    ) {
        let Some(limit) = limit.or_else(|| self.deadlines.limit_of(key)) else { return };
        self.deadlines.in_round(key, cell.round(), limit, Instant::now());
    }

    /// Gives up what has taken too long. Returns whether anything has.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut has_expired = false;
        for _ in 0..MOST_AT_ONCE {
            let Some(overdue) = self.deadlines.take_overdue(now) else { break };
            has_expired |= self.expire_round(overdue);
        }
        has_expired
    }

    /// Returns whether the round has not ended before.
    fn expire_round(&mut self, overdue: Overdue) -> bool {
        let Overdue { transfer, round, limit } = overdue;
        let Ok(state) = self.commons.ledger.transfers.get(transfer) else { return false };
        let key = state.peer;
        let expired = || Error::Expired { peer: self.name_of(key), after: limit };
        if !state.overdue(round, expired) {
            return false;
        }
        let Some(peer) = self.peers.get_mut(key) else { return true };
        let given_up = peer.overdue(transfer, &mut self.commons);
        self.agenda.mark(key);
        let _ = self.end_on_error(key, given_up);
        true
    }
}
