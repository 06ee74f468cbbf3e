//! Memory that is registered or being copied, and who may post on it meanwhile.

use tcpx_protocol::types::memory_id::MemoryId;
use tcpx_protocol::types::{Access, MemoryType, RegistrationKey};

use super::Engine;
use crate::error::{Error, Result};
use crate::memory::device_memory::OwnedMemory;
use crate::memory::new_registration::NewRegistration;

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
                        // No comm knows it yet.
                        let key = registrations.leave(id)?;
                        registrations.take_handles(key);
                        registrations.remove(id)?;
                    }
                    return Err(error.at_index_of_list(index));
                }
            }
        }
        ids.iter().for_each(|id| self.offer(*id));
        Ok(ids)
    }

    /// A copy to or from memory begins, while which nothing is posted on it. What peers say waits
    /// until it is over, if the memory is exported: they might ask for it.
    ///
    /// # Errors
    /// [`Error::InUse`] when something was posted by now.
    pub(crate) fn begin_copy(&mut self, id: MemoryId, key: RegistrationKey) -> Result<()> {
        self.withhold(id);
        self.commons.ledger.exports.rest();
        let operations = self.commons.ledger.uses(id);
        if operations == 0 {
            self.commons.ledger.registrations.begin_copy(key);
            self.commons.ledger.exports.begin_copy(id);
            return Ok(());
        }
        self.offer(id);
        Err(Error::InUse { id, operations, holders: String::new() })
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
    pub(super) fn withhold(&mut self, id: MemoryId) {
        while !self.inbox.withhold(id) {
            self.post_handed_in();
        }
    }
}
