//! Transfers, and posts to them.

use std::sync::Arc;

use tcpx_protocol::peer::message::NewOperation;
use tcpx_protocol::types::memory::{Device, MemoryId};
use tcpx_protocol::types::{Direction, TransferKey};

use super::Engine;
use super::inbox::Inbox;
use crate::error::{Error, MemoryUnavailable, RegistrationProblem, Result};
use crate::peer::resources::PostGate;
use crate::transfer::Post;
use crate::transfer::transfer_cell::TransferCell;

/// Number of posts for which a buffer is kept for the next batch.
const KEPT_POSTS: usize = 4096;

/// New transfer, for its owner.
#[derive(Debug)]
pub(crate) struct NewTransfer {
    pub(crate) key: TransferKey,
    pub(crate) cell: Arc<TransferCell>,
    /// Gate of the transfer's peer.
    pub(crate) gate: Arc<PostGate>,
}

/// Returns the error of a post with memory that the engine does not know. In a session of all
/// devices the host's engine has the transfers, and the id says whether its memory is of a GPU.
fn of_gpu(id: MemoryId, error: Error) -> Error {
    match (error, id.device()) {
        (Error::UnknownRegistration { id }, Device::Gpu(gpu)) => {
            Error::Registration { id: Some(id), problem: RegistrationProblem::GpuByTag { gpu } }
        }
        (error, _) => error,
    }
}

impl Engine {
    /// Returns a new transfer with a peer that is up: its key, the state that its owner sees, and
    /// whether anything may be posted to it.
    pub(crate) fn create_transfer(&mut self, name: &str) -> Result<NewTransfer> {
        self.check_open()?;
        let (key, _) = self.peer(name)?;
        let peer = self.peers.get_mut(key).ok_or(Error::Closed)?;
        peer.connection_up()?;
        let gate = Arc::clone(peer.gate());
        let (key, cell) = self.resources.ledger.transfers.add(key);
        Ok(NewTransfer { key, cell, gate })
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
        let transfer = self.resources.ledger.transfers.get(key)?;
        let (peer_key, cell) = (transfer.peer, Arc::clone(&transfer.cell));
        let peer = self.peers.get_mut(peer_key).ok_or(Error::Closed)?;
        let connection = peer.connection_up()?;
        let registrations = &self.resources.ledger.registrations;
        self.posting.try_reserve(posts.len()).map_err(|_| {
            Error::MemoryUnavailable(MemoryUnavailable::Operations { count: posts.len() })
        })?;
        for Post { memory, offset, bytes, tag } in posts.iter().copied() {
            let usable = registrations.usable(memory).map_err(|error| of_gpu(memory, error))?;
            let span = usable.span(offset, bytes, direction.access())?;
            self.posting.push(NewOperation { transfer: key, direction, tag, span, bytes });
        }
        connection.check_posts(direction, posts.len())?;
        connection.make_room(direction, posts.len())?;
        cell.posted(direction, posts.len() as u64);
        let posted = connection.post(&self.posting, &mut self.resources);
        self.begin_time(key, &cell, None);
        self.end_on_error(peer_key, posted)?;
        self.posted(peer_key, posts.len(), cell.is_complete());
        Ok(())
    }

    /// Returns the inbox of posts of callers that do not wait for the engine.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Posts operations of one kind and transfer, which has counted them. The next round sends
    /// them. If the peer has ended meanwhile, they end as all its posts do.
    pub(super) fn post_counted(&mut self, operations: &[NewOperation]) {
        let Some(&NewOperation { transfer, direction, .. }) = operations.first() else { return };
        let Err(error) = self.try_post_counted(transfer, direction, operations) else { return };
        for _ in operations {
            self.resources.ledger.transfers.failed(transfer, || error.clone());
        }
    }

    /// # Errors
    /// Nothing was posted.
    fn try_post_counted(
        &mut self,
        transfer: TransferKey,
        direction: Direction,
        operations: &[NewOperation],
    ) -> Result<()> {
        self.check_open()?;
        let state = self.resources.ledger.transfers.get(transfer)?;
        let (peer_key, cell) = (state.peer, Arc::clone(&state.cell));
        let peer = self.peers.get_mut(peer_key).ok_or(Error::Closed)?;
        let connection = peer.connection_up()?;
        connection.check_posts(direction, operations.len())?;
        connection.make_room(direction, operations.len())?;
        let posted = connection.post(operations, &mut self.resources);
        self.begin_time(transfer, &cell, None);
        // The posts have ended with the peer.
        let _ = self.end_on_error(peer_key, posted);
        self.has_posted = true;
        self.agenda.mark(peer_key);
        Ok(())
    }

    /// Returns whether a transfer has become complete since the last call.
    pub(crate) fn take_completed(&mut self) -> bool {
        self.resources.ledger.transfers.take_completed()
    }

    /// Withdraws every operation of a transfer that has no counterpart.
    pub(crate) fn cancel(&mut self, key: TransferKey) {
        let Ok(transfer) = self.resources.ledger.transfers.get(key) else { return };
        // A complete transfer has nothing to withdraw.
        let (peer_key, is_complete) = (transfer.peer, transfer.is_complete());
        let peer = self.peers.get_mut(peer_key).filter(|_| !is_complete);
        let Some(peer) = peer else { return };
        let cancelled = peer.cancel(key, &mut self.resources);
        self.agenda.mark(peer_key);
        let _ = self.end_on_error(peer_key, cancelled);
    }

    /// Releases a transfer: withdraws what it can, and forgets the transfer with its last
    /// operation.
    pub(crate) fn release(&mut self, key: TransferKey) {
        self.cancel(key);
        self.deadlines.remove(key);
        self.resources.ledger.transfers.detach(key);
    }
}
