//! Deregistration of memory: its keys are revoked, its users are ended, and then it is removed.
//!
//! Users of a registration are counted in one place, the
//! [`Ledger`](crate::peer::resources::Ledger): operations of the program until their last byte,
//! also after their transfer was released; requests of peers; copies of the program. Remains of an
//! ended peer keep their counts until no copy and no comm touches the memory.

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::Duration;

use tcpx_protocol::types::RegistrationKey;
use tcpx_protocol::types::memory::MemoryId;

use super::Engine;
use crate::error::{Departure, Error, Phase, Result};
use crate::memory::device_memory::OwnedMemory;
use crate::peer::Peer;
use crate::peer::connection::Connection;
use crate::plugin::calls::CALL_TIMEOUT;
use crate::plugin::comm::Deregistration;
use crate::plugin::registrations::stage::PendingDeregistration;
use crate::types::PeerKey;
use crate::workers::JobStep;

/// Memory that nothing uses any more.
#[derive(Debug)]
pub(crate) enum Deregistered {
    /// The registration is removed from the session, which owned this memory of it.
    Out(Option<OwnedMemory>),
    /// Comms that know the registration are deregistering it. [`Engine::finish_deregistering`]
    /// removes it.
    Pending(PendingDeregistration),
}

impl Engine {
    /// Revokes every export of a registration, and gives up the program's posts on it. No new use
    /// of the memory begins. A second call does no harm.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`].
    pub(crate) fn start_deregistering(&mut self, id: MemoryId) -> Result<()> {
        self.withhold(id);
        let ledger = &mut self.resources.ledger;
        let key = ledger.registrations.begin_draining(id)?;
        ledger.exports.revoke_all_of(id);
        self.stop_serving_revoked();
        if self.resources.ledger.registrations.is_used(key) {
            self.give_up_users(key);
        }
        Ok(())
    }

    /// Removes a registration once nothing uses it, after
    /// [`start_deregistering`](Self::start_deregistering).
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`].
    pub(crate) fn deregister(&mut self, id: MemoryId) -> Result<Poll<Deregistered>> {
        let ledger = &mut self.resources.ledger;
        let key = ledger.registrations.begin_draining(id)?;
        if let Some(pending) = ledger.registrations.pending_deregistration(key) {
            return Ok(Poll::Ready(Deregistered::Pending(pending.clone())));
        }
        if ledger.registrations.is_used(key) || ledger.exports.active_of(id) > 0 {
            return Ok(Poll::Pending);
        }
        let calls = self.calls_to_forget(key);
        let Some(first) = calls.first() else {
            return Ok(Poll::Ready(Deregistered::Out(self.finish_deregistering(id)?)));
        };
        let hang = first.hang(CALL_TIMEOUT);
        let mut calls = Some(calls);
        let returned = self.resources.workers.run(move || {
            calls.take().into_iter().flatten().for_each(Deregistration::make);
            JobStep::Done
        });
        let pending = PendingDeregistration { returned, hang };
        self.resources.ledger.registrations.set_pending_deregistration(key, pending.clone());
        Ok(Poll::Ready(Deregistered::Pending(pending)))
    }

    /// Removes a registration that no comm knows any more. Returns the memory that it owned.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`].
    pub(crate) fn finish_deregistering(&mut self, id: MemoryId) -> Result<Option<OwnedMemory>> {
        let mut owned = self.resources.ledger.registrations.remove(id)?;
        // Freeing a GPU's memory waits for the GPU.
        if self.unpacking.is_stuck() && matches!(owned, Some(OwnedMemory::Gpu(_))) {
            std::mem::forget(owned.take());
        }
        Ok(owned)
    }

    /// Returns the calls that deregister memory with every comm that knows it. Of present peers,
    /// only those whose comms know the memory are asked.
    fn calls_to_forget(&mut self, key: RegistrationKey) -> Vec<Deregistration> {
        let mut handles = self.resources.ledger.registrations.take_handles(key);
        for owner in handles.owners() {
            if let Some(connection) = self.peers.get(owner).and_then(Peer::connection) {
                connection.take_back(&mut handles);
            }
        }
        if !handles.is_empty() {
            self.unpacking.take_back(&mut handles);
        }
        handles.into_calls()
    }

    /// Cancels the program's posts on a registration, except bytes in flight.
    fn give_up_users(&mut self, key: RegistrationKey) {
        for peer_key in self.peers.keys().collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(peer_key) else { continue };
            let transfers = peer.transfers_on(key);
            if transfers.is_empty() {
                continue;
            }
            let given_up =
                transfers.into_iter().try_for_each(|it| peer.overdue(it, &mut self.resources));
            self.agenda.mark(peer_key);
            // Posts to the peer have ended with it.
            let _ = self.end_on_error(peer_key, given_up);
        }
    }

    /// Ends peers that use a registration although they were asked to stop, for this long.
    pub(crate) fn end_users_of(&mut self, id: MemoryId, waited: Duration) {
        if let Ok(key) = self.resources.ledger.registrations.key_of(id) {
            self.end_users(|connection| connection.uses(key), waited);
        }
    }

    /// Ends peers that use memory although they were asked to stop, for this long.
    pub(crate) fn end_users(&mut self, uses: impl Fn(&Connection) -> bool, waited: Duration) {
        let uses = |peer: &Peer| peer.connection().is_some_and(&uses);
        let users: Vec<PeerKey> =
            self.peers.iter().filter(|(_, peer)| uses(peer)).map(|(key, _)| key).collect();
        for key in users {
            let Some(peer) = self.peers.get(key) else { continue };
            let peer = peer.name().to_string();
            let (phase, how) = (Phase::Receive, Departure::KeptMemory(waited));
            self.fail_peer(key, Error::PeerGone { peer, phase, how });
        }
    }

    /// Returns the error of memory that is still in use, with its users and their purposes.
    pub(crate) fn still_used(&self, id: MemoryId) -> Error {
        let ledger = &self.resources.ledger;
        let Ok(key) = ledger.registrations.key_of(id) else { return Error::Closed };
        let mut holders = BTreeSet::new();
        let reached = self.resources.batch.reached();
        for peer in self.peers.values() {
            if let Some(connection) = peer.connection()
                && connection.uses(key)
            {
                holders.insert(format!("peer {}: it is {}", peer.name(), peer.state()));
            }
        }
        holders.extend(self.unpacking.holders(key, reached));
        if ledger.registrations.is_copied(key) {
            holders.insert("a copy through the session".to_owned());
        }
        let holders = holders.into_iter().collect::<Vec<_>>().join(", ");
        Error::InUse { id, operations: ledger.uses(id), holders }
    }
}
