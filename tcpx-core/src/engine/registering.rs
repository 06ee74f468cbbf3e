//! Memory that comes, goes, or is being copied, and who may post on it meanwhile.

use std::task::Poll;

use super::Engine;
use crate::error::{Error, Result};
use crate::memory::device_memory::OwnedMemory;
use crate::memory::new_registration::NewRegistration;
use crate::peer::commons::Ledger;
use crate::plugin::comm::Deregistration;
use crate::types::memory_id::MemoryId;
use crate::types::{Access, MemoryType, RegistrationKey};

/// Memory that was taken out of a session.
pub(crate) struct Deregistered {
    /// What comms that know it are to be told.
    pub(crate) calls: Vec<Deregistration>,
    /// The memory, if the session owned it.
    pub(crate) owned: Option<OwnedMemory>,
}

impl Engine {
    /// Adds memory, as [`Registrations::add`] says.
    ///
    /// [`Registrations::add`]: crate::plugin::registrations::Registrations::add
    pub(crate) fn register(
        &mut self,
        address: u64,
        bytes: u64,
        memory: MemoryType,
        access: Access,
        owned: Option<OwnedMemory>,
    ) -> Result<MemoryId> {
        let registrations = &mut self.commons.ledger.registrations;
        let id = registrations.add(address, bytes, memory, access, owned)?;
        self.offer(id);
        Ok(id)
    }

    /// Adds many ranges, all or none. Nobody can use one of them before all are there.
    ///
    /// # Errors
    /// [`Error::ListedRegistration`] for the first that is wrong.
    pub(crate) fn register_list(&mut self, list: &[NewRegistration]) -> Result<Vec<MemoryId>> {
        let registrations = &mut self.commons.ledger.registrations;
        let mut ids = Vec::with_capacity(list.len());
        for (index, new) in list.iter().enumerate() {
            match registrations.add(new.address.get(), new.bytes, new.memory, new.access, None) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    for id in ids {
                        // No comm has heard of it yet.
                        registrations.remove(id, |_, _| {})?;
                    }
                    return Err(error.at_index_of_list(index));
                }
            }
        }
        ids.iter().for_each(|id| self.offer(*id));
        Ok(ids)
    }

    /// Takes memory out, and everything back that is exported of it, unless operations of the
    /// program use it. What is returned is to be done without the lock: every comm that knows the
    /// memory is told to forget it, and if the session owned it, it is freed after that. Pending:
    /// peers use it, and cannot begin to any more.
    pub(crate) fn deregister(&mut self, id: MemoryId) -> Result<Poll<Deregistered>> {
        self.withhold(id);
        let outcome = self.take_memory_out(id);
        if !matches!(outcome, Ok(Poll::Ready(_))) {
            self.offer(id);
        }
        outcome
    }

    fn take_memory_out(&mut self, id: MemoryId) -> Result<Poll<Deregistered>> {
        let Ledger { registrations, exports, .. } = &mut self.commons.ledger;
        registrations.check_unused(id)?;
        exports.revoke_all_of(id);
        let is_used = exports.active_of(id) > 0;
        self.stop_serving_revoked();
        if is_used {
            return Ok(Poll::Pending);
        }
        let (peers, parked) = (&self.peers, &self.parked);
        let mut calls = Vec::new();
        let removed = self.commons.ledger.registrations.remove(id, |comm, handle| {
            let of_peer = peers.values().find_map(|peer| peer.deregistration(comm, handle));
            let of_parked = || parked.iter().find_map(|parked| parked.deregistration(comm, handle));
            calls.extend(of_peer.or_else(of_parked));
        });
        let mut owned = removed?;
        // Freeing a GPU's memory waits for the GPU.
        if self.is_stuck && matches!(owned, Some(OwnedMemory::Gpu(_))) {
            std::mem::forget(owned.take());
        }
        Ok(Poll::Ready(Deregistered { calls, owned }))
    }

    /// A copy to or from memory begins, while which nothing is posted on it. What peers say waits
    /// until it is over, if the memory is exported: they might ask for it.
    ///
    /// # Errors
    /// [`Error::InUse`] when something was posted by now.
    pub(crate) fn begin_copy(&mut self, id: MemoryId, key: RegistrationKey) -> Result<()> {
        self.withhold(id);
        let operations = self.commons.ledger.uses(id);
        if operations == 0 {
            self.commons.ledger.registrations.begin_copy(key);
            self.commons.ledger.exports.begin_copy(id);
            return Ok(());
        }
        self.offer(id);
        Err(Error::InUse { id, operations })
    }

    /// A copy has ended.
    pub(crate) fn end_copy(&mut self, id: MemoryId, key: RegistrationKey) {
        self.commons.ledger.registrations.end_copy(key);
        self.commons.ledger.exports.end_copy(id);
        self.offer(id);
    }

    /// Lets those post on memory who do not wait for the engine, as long as nothing is copied to or
    /// from it.
    fn offer(&self, id: MemoryId) {
        if let Ok(usable) = self.commons.ledger.registrations.usable(id) {
            self.inbox.offer(id, usable);
        }
    }

    /// From now on whoever posts on this memory waits for the engine. What was handed in is posted.
    fn withhold(&mut self, id: MemoryId) {
        while !self.inbox.withhold(id) {
            self.post_handed_in();
        }
    }
}
