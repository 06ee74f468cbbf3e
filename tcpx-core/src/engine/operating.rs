//! Operations on memory of peers: prepared once, posted many times.
//!
//! Deferred calls of an engine, for callers that may not wait for its lock.

use std::sync::Arc;

use tcpx_protocol::exports::remote_key::RemoteRange;
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::peer::message::NewOperation;
use tcpx_protocol::peer::one_sided::NewRequest;
use tcpx_protocol::peer::one_sided::local_lists::PreparedList;
use tcpx_protocol::types::memory::{MemoryId, OperationKind};
use tcpx_protocol::types::{MAX_NOTIFICATION_BYTES, MemoryType, PreparedKey, TransferKey};

use super::Engine;
use super::inbox::{DeferredCall, DeferredCalls, DeferredPost};
use super::prepared_pairs::{Prepared, PreparedPairs};
use crate::error::{Error, RegistrationProblem, Result};
use crate::peer::Peer;
use crate::transfer::transfer_cell::TransferCell;
use crate::transfer::{MemoryRange, PostOptions};
use crate::types::PeerKey;

/// Keys of an operation, for its owner.
#[derive(Debug)]
pub(crate) struct OperationKeys {
    pub(crate) prepared: PreparedKey,
    pub(crate) transfer: TransferKey,
    pub(crate) cell: Arc<TransferCell>,
}

impl Engine {
    /// Prepares an operation with a known peer.
    pub(crate) fn prepare(
        &mut self,
        name: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
    ) -> Result<OperationKeys> {
        self.check_open()?;
        self.check_reachable(name, remote.iter().map(|range| range.key.session))?;
        let pairs = self.pair(name, kind, local, remote)?;
        let PreparedPairs { pieces, memory, keys, key_bytes, ranges, remote_memory } = pairs;
        let pieces = Arc::new(pieces);
        let session = remote.first().map(|range| range.key.session);
        let list = |key| PreparedList { key, kind, pieces, keys, key_bytes, ranges, remote_memory };
        Ok(self.add_prepared(name, session, memory, list))
    }

    /// Prepares an operation that moves nothing but notifications.
    pub(crate) fn prepare_notification(&mut self, name: &str) -> Result<OperationKeys> {
        self.check_open()?;
        self.check_reachable(name, std::iter::empty())?;
        Ok(self.add_prepared(name, None, Box::default(), PreparedList::empty))
    }

    fn add_prepared(
        &mut self,
        name: &str,
        session: Option<SessionId>,
        memory: Box<[MemoryId]>,
        list: impl FnOnce(PreparedKey) -> PreparedList,
    ) -> OperationKeys {
        let peer = self.names.get(name).copied().unwrap_or_default();
        let prepared = self.prepared.insert_with_key(|key| {
            let list = Arc::new(list(key));
            Prepared { list, peer_name: name.into(), session, peer, memory }
        });
        let (transfer, cell) = self.resources.ledger.transfers.add(peer);
        OperationKeys { prepared, transfer, cell }
    }

    /// Returns the pairs of an operation, checked.
    fn pair(
        &self,
        name: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
    ) -> Result<PreparedPairs> {
        let registrations = &self.resources.ledger.registrations;
        let pairs = PreparedPairs::new(kind, local, remote, |range, access| {
            registrations.usable(range.memory)?.span(range.offset, range.bytes, access)
        });
        let pairs = pairs.map_err(|error| error.of_peer(name))?;
        let receives_host = self.resources.session.plugin.receives_host();
        if kind == OperationKind::Read && pairs.pieces.memory == MemoryType::Host && !receives_host
        {
            let problem = RegistrationProblem::ReceiveIntoHostMemory;
            return Err(Error::Registration { id: local.first().map(|it| it.memory), problem });
        }
        Ok(pairs)
    }

    /// Posts an operation, which must not be under way.
    pub(crate) fn post_operation(
        &mut self,
        prepared: PreparedKey,
        transfer: TransferKey,
        options: PostOptions<'_>,
    ) -> Result<()> {
        let PostOptions { notification: note, timeout } = options;
        self.check_open()?;
        check_note(note.unwrap_or_default())?;
        let peer_key = self.peer_of(prepared, transfer)?;
        let Prepared { list, memory, .. } = self.prepared.get(prepared).ok_or(Error::Closed)?;
        let list = Arc::clone(list);
        let cell = Arc::clone(&self.resources.ledger.transfers.get(transfer)?.cell);
        let peer = self.peers.get_mut(peer_key).ok_or(Error::Closed)?;
        if !cell.is_complete() {
            return Err(Error::PeerState {
                peer: peer.name().to_string(),
                state: "busy with this operation",
                cure: "wait for it, or prepare another",
            });
        }
        peer.check_requests()?;
        let registrations = &mut self.resources.ledger.registrations;
        for id in memory {
            registrations.usable(*id)?;
        }
        for owner in list.pieces.owners() {
            registrations.begin(*owner);
        }
        cell.posted(list.direction(), 1);
        let request = NewRequest { transfer, list, note: note.map(Arc::from) };
        let posted = peer.post_request(request, &mut self.resources);
        self.begin_time(transfer, &cell, timeout);
        self.end_on_error(peer_key, posted)?;
        if self.peers.get(peer_key).is_some_and(Peer::sends_link_chunks) {
            // A round sends the chunks, which takes a while.
            self.agenda.mark(peer_key);
        } else {
            self.posted(peer_key, 1, false);
        }
        Ok(())
    }

    /// Releases an operation: gives it up where possible, and forgets it when it ends.
    pub(crate) fn release_operation(&mut self, prepared: PreparedKey, transfer: TransferKey) {
        self.release(transfer);
        let Some(Prepared { peer, .. }) = self.prepared.remove(prepared) else { return };
        let connection = self.peers.get_mut(peer).and_then(|peer| peer.connection_mut());
        if let Some(connection) = connection {
            connection.unprepare(prepared);
            self.agenda.mark(peer);
        }
    }

    /// Sends a notification by itself.
    pub(crate) fn notify(&mut self, name: &str, note: &[u8]) -> Result<()> {
        self.check_open()?;
        check_note(note)?;
        let key = self.reach_with_note(name)?;
        let peer = self.peers.get_mut(key).ok_or(Error::Closed)?;
        peer.check_requests()?;
        let noted = peer.notify(Arc::from(note), &mut self.resources);
        if let Err(Error::NotificationsFull { .. }) = noted {
            return noted;
        }
        self.end_on_error(key, noted)?;
        self.handle_output(key);
        Ok(())
    }

    /// Ends the peers' requests for revoked exports.
    pub(crate) fn stop_serving_revoked(&mut self) {
        let revoked = self.resources.ledger.exports.take_revoked();
        if revoked.is_empty() {
            return;
        }
        let keys: Vec<PeerKey> = self.peers.keys().collect();
        for key in keys {
            let connection = self.peers.get_mut(key).and_then(|peer| peer.connection_mut());
            if connection.is_some_and(|connection| connection.revoke(&revoked)) {
                self.agenda.mark(key);
            }
        }
    }
}

/// Checks that a notification is no longer than the wire allows.
pub(crate) fn check_note(note: &[u8]) -> Result<()> {
    match note.len() <= MAX_NOTIFICATION_BYTES as usize {
        true => Ok(()),
        false => Err(Error::NotificationTooLong { bytes: note.len() as u64 }),
    }
}

impl Engine {
    /// Returns the queue of deferred calls.
    pub(crate) fn deferred_calls(&self) -> &Arc<DeferredCalls> {
        &self.deferred_calls
    }

    /// Posts what was handed in, and runs deferred calls. A thread that gets the engine does this
    /// first.
    pub(crate) fn post_handed_in(&mut self) {
        let mut handed_in = std::mem::take(&mut self.handed_in);
        if self.inbox.take(&mut handed_in) {
            let together = |a: &NewOperation, b: &NewOperation| {
                (a.transfer, a.direction) == (b.transfer, b.direction)
            };
            for operations in handed_in.chunk_by(together) {
                self.post_counted(operations);
            }
            handed_in.clear();
        }
        self.handed_in = handed_in;
        self.run_deferred_calls();
    }

    /// Runs the deferred calls.
    pub(super) fn run_deferred_calls(&mut self) {
        for deferred_call in self.deferred_calls.take() {
            match deferred_call {
                DeferredCall::Cancel(transfer) => self.cancel(transfer),
                DeferredCall::Post(post) => self.post_deferred(&post),
            }
        }
    }

    fn post_deferred(&mut self, post: &DeferredPost) {
        let DeferredPost { prepared, transfer, notification, timeout } = post;
        // The owner may have released the transfer.
        let Ok(state) = self.resources.ledger.transfers.get(*transfer) else { return };
        let (cell, round) = (Arc::clone(&state.cell), state.cell.round());
        let options = PostOptions { notification: Some(notification), timeout: *timeout };
        let Err(error) = self.post_operation(*prepared, *transfer, options) else { return };
        // A posted operation whose peer the post itself ended has reported its end.
        if cell.round() == round
            && let Some(listener) = cell.listener.get()
        {
            listener.round_ended(Err(error));
        }
    }
}
