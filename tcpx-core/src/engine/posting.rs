//! Transfers, and what is posted to them.

use std::sync::Arc;

use super::Engine;
use crate::error::{Error, MemoryUnavailable, Result};
use crate::peer::protocol::operation::NewOperation;
use crate::transfer::post::Post;
use crate::transfer::transfer_cell::TransferCell;
use crate::types::{Access, Direction, TransferKey};

/// Room for so many posts is kept for the next batch.
const KEPT_POSTS: usize = 4096;

impl Engine {
    /// A new transfer with a peer that is up, and what its owner sees of it.
    pub(crate) fn create_transfer(
        &mut self,
        name: &str,
    ) -> Result<(TransferKey, Arc<TransferCell>)> {
        self.check_open()?;
        let (key, _) = self.peer(name)?;
        let peer = self.peers.get_mut(key).ok_or(Error::Closed)?;
        peer.connection_up()?;
        Ok(self.commons.ledger.transfers.add(key))
    }

    /// Posts sends or receives: all of them, or none when one is wrong or memory runs out.
    pub(crate) fn post(
        &mut self,
        key: TransferKey,
        direction: Direction,
        posts: &[Post],
    ) -> Result<()> {
        let outcome = self.post_all(key, direction, posts);
        self.posting.clear();
        if self.posting.capacity() > KEPT_POSTS {
            self.posting = Vec::new();
        }
        outcome
    }

    fn post_all(&mut self, key: TransferKey, direction: Direction, posts: &[Post]) -> Result<()> {
        self.check_open()?;
        let peer_key = self.commons.ledger.transfers.get(key)?.peer;
        let peer = self.peers.get_mut(peer_key).ok_or(Error::Closed)?;
        let connection = peer.connection_up()?;
        let access = match direction {
            Direction::Send => Access::ReadOnly,
            Direction::Receive => Access::ReadWrite,
        };
        let registrations = &self.commons.ledger.registrations;
        self.posting.try_reserve(posts.len()).map_err(|_| {
            Error::MemoryUnavailable(MemoryUnavailable::Operations { count: posts.len() })
        })?;
        for Post { memory, offset, bytes, tag } in posts.iter().copied() {
            let span = registrations.posted_span(memory, offset, bytes, access)?;
            self.posting.push(NewOperation { transfer: key, direction, tag, span, bytes });
        }
        connection.check_posts(direction, posts.len())?;
        connection.make_room(direction, posts.len())?;
        self.commons.ledger.transfers.posted(key, direction, posts.len());
        let posted = connection.post(&self.posting, &mut self.commons);
        self.end_on_error(peer_key, posted)?;
        self.posted(peer_key, posts.len());
        Ok(())
    }

    /// Whether a transfer has become complete since this was asked last.
    pub(crate) fn take_completed(&mut self) -> bool {
        self.commons.ledger.transfers.take_completed()
    }

    /// Withdraws every operation of a transfer that has no counterpart.
    pub(crate) fn cancel(&mut self, key: TransferKey) {
        let Ok(transfer) = self.commons.ledger.transfers.get(key) else { return };
        // What is complete has nothing to withdraw.
        let (peer_key, is_complete) = (transfer.peer, transfer.is_complete());
        let peer = self.peers.get_mut(peer_key).filter(|_| !is_complete);
        let Some(connection) = peer.and_then(|peer| peer.connection_mut()) else { return };
        let cancelled = connection.cancel(key, &mut self.commons);
        self.agenda.mark(peer_key);
        let _ = self.end_on_error(peer_key, cancelled);
    }

    /// Lets go of a transfer: withdraws what it can, and forgets it with its last operation.
    pub(crate) fn release(&mut self, key: TransferKey) {
        self.cancel(key);
        self.commons.ledger.transfers.detach(key);
    }
}
