//! Transfers, and what is posted to them.

use std::time::{Duration, Instant};

use super::Engine;
use crate::error::{Error, Phase, Result};
use crate::peer::protocol::operation::NewOperation;
use crate::peer::protocol::operation::Operation;
use crate::transfer::post::Post;
use crate::transfer::transfers::{TransferCounts, TransferState};
use crate::types::{Access, Direction, PeerKey, TransferKey};

impl Engine {
    /// A new transfer with a peer that is up.
    pub(crate) fn create_transfer(&mut self, name: &str) -> Result<TransferKey> {
        let (key, _) = self.peer(name)?;
        let peer = self.peers.get_mut(key).ok_or(Error::Closed)?;
        peer.connection_up()?;
        Ok(self.commons.ledger.transfers.add(key))
    }

    /// Posts sends or receives: all of them, or none when one is wrong.
    pub(crate) fn post(
        &mut self,
        key: TransferKey,
        direction: Direction,
        posts: &[Post],
    ) -> Result<()> {
        let peer_key = self.commons.ledger.transfers.get(key)?.peer;
        let peer = self.peers.get_mut(peer_key).ok_or(Error::Closed)?;
        let connection = peer.connection_up()?;
        let access = match direction {
            Direction::Send => Access::ReadOnly,
            Direction::Receive => Access::ReadWrite,
        };
        let registrations = &self.commons.ledger.registrations;
        self.posting.clear();
        for Post { memory, offset, bytes, tag } in posts.iter().copied() {
            let span = registrations.span(memory, offset, bytes, access)?;
            self.posting.push(NewOperation { transfer: key, direction, tag, span, bytes });
        }
        connection.check_posts(direction, posts.len())?;
        self.commons.ledger.transfers.posted(key, posts.len());
        let posted = connection.post(&self.posting, &mut self.commons);
        self.end_on_error(peer_key, posted)
    }

    /// Withdraws every operation of a transfer that has no counterpart.
    pub(crate) fn cancel(&mut self, key: TransferKey) {
        let Ok(transfer) = self.commons.ledger.transfers.get(key) else { return };
        // What is complete has nothing to withdraw.
        let (peer_key, is_complete) = (transfer.peer, transfer.is_complete());
        let peer = self.peers.get_mut(peer_key).filter(|_| !is_complete);
        let Some(connection) = peer.and_then(|peer| peer.connection_mut()) else { return };
        let cancelled = connection.cancel(|posted| posted.transfer == key, &mut self.commons);
        let _ = self.end_on_error(peer_key, cancelled);
    }

    /// Lets go of a transfer: withdraws what it can, and forgets it with its last operation.
    pub(crate) fn release(&mut self, key: TransferKey) {
        self.cancel(key);
        self.commons.ledger.transfers.detach(key);
    }

    /// Whether every operation of a transfer has ended.
    ///
    /// # Errors
    /// The first error of its round, once all have ended.
    pub(crate) fn is_complete(&self, key: TransferKey) -> Result<bool> {
        let transfer = self.commons.ledger.transfers.get(key)?;
        if !transfer.is_complete() {
            return Ok(false);
        }
        transfer.error.clone().map_or(Ok(true), Err)
    }

    pub(crate) fn transfer_counts(&self, key: TransferKey) -> Result<TransferCounts> {
        self.commons.ledger.transfers.get(key).map(|transfer| transfer.counts)
    }

    /// The numbers of its last round.
    pub(crate) fn transfer_round_counts(&self, key: TransferKey) -> Result<TransferCounts> {
        self.commons.ledger.transfers.get(key).map(TransferState::round_counts)
    }

    /// The first error of its last round so far.
    pub(crate) fn transfer_error(&self, key: TransferKey) -> Option<Error> {
        self.commons.ledger.transfers.get(key).ok()?.error.clone()
    }

    /// Waiting for a transfer took too long: what is missing.
    pub(crate) fn transfer_deadline(
        &self,
        key: TransferKey,
        waited: Duration,
        now: Instant,
    ) -> Error {
        let Ok(transfer) = self.commons.ledger.transfers.get(key) else { return Error::Closed };
        let (peer, counts) = (transfer.peer, transfer.counts);
        let of_transfer = |operation: &&Operation| operation.posted.transfer == key;
        let mut operations = self.operations_of(peer).filter(of_transfer);
        let sends = operations.any(|operation| operation.posted.direction == Direction::Send);
        let phase = if sends { Phase::Send } else { Phase::Receive };
        let mut error = self.deadline(phase, Some(peer), waited, now);
        if let Error::Deadline { detail, .. } = &mut error {
            *detail = format!(
                "{} of {} operations and {} of {} chunks are done, {}; peer is {detail}",
                counts.operations_done,
                counts.operations_posted,
                counts.chunks_done,
                counts.chunks_posted,
                self.unmatched(peer, key),
            );
        }
        error
    }

    fn operations_of(&self, peer: PeerKey) -> impl Iterator<Item = &Operation> {
        let connection = self.peers.get(peer).and_then(|peer| peer.connection());
        connection.into_iter().flat_map(|connection| connection.operations())
    }

    /// How many operations of a transfer have no counterpart, and what one of them waits for.
    fn unmatched(&self, peer: PeerKey, key: TransferKey) -> String {
        let unmatched =
            |operation: &&Operation| operation.posted.transfer == key && !operation.is_matched();
        let count = self.operations_of(peer).filter(unmatched).count();
        let one = self.operations_of(peer).find(unmatched).map(|operation| {
            let tag = operation.posted.tag;
            match operation.posted.direction {
                Direction::Send => {
                    format!(": the send with tag {tag} waits for the peer's receive")
                }
                Direction::Receive => {
                    format!(": the receive with tag {tag} waits for the peer's send")
                }
            }
        });
        format!("{count} operations have no counterpart{}", one.unwrap_or_default())
    }
}
