//! Registration and copying of memory, and what of it peers may reach.
//!
//! A list is registered all or none: each range is checked first, and then all are added under one
//! lock.

use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::exports::capability::ExportSecret;
use tcpx_protocol::exports::exported_range::{ExportKey, ExportedRange};
use tcpx_protocol::exports::refusal::Refusal;
use tcpx_protocol::exports::remote_key::RemoteKey;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Access, MemoryType, RegistrationKey};

use super::Engine;
use crate::control::identity::random;
use crate::error::{Error, RegistrationProblem, Result};
use crate::memory::NewRegistration;
use crate::memory::device_memory::OwnedMemory;
use crate::settings::choices::ExportOptions;

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
        let registrations = &mut self.resources.ledger.registrations;
        let id = registrations.add(address, bytes, memory, access, owned)?;
        self.offer(id);
        Ok(id)
    }

    /// Adds many ranges, all or none. No range can be used before all are there.
    ///
    /// # Errors
    /// [`Error::ListedRegistration`] for the first invalid range.
    pub(crate) fn register_list(&mut self, list: &[NewRegistration]) -> Result<Vec<MemoryId>> {
        let registrations = &mut self.resources.ledger.registrations;
        let mut ids = Vec::with_capacity(list.len());
        for (index, new) in list.iter().enumerate() {
            match registrations.add(new.address.get(), new.bytes, new.memory, new.access, None) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    for id in ids {
                        // No comm knows it yet.
                        let key = registrations.begin_draining(id)?;
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

    /// Begins a copy to or from memory, during which nothing is posted on the memory. If the memory
    /// is exported, messages of peers wait until the copy is over: they might request the memory.
    ///
    /// # Errors
    /// [`Error::InUse`] when something is already posted.
    pub(crate) fn begin_copy(&mut self, id: MemoryId, key: RegistrationKey) -> Result<()> {
        self.withhold(id);
        self.resources.ledger.exports.rest();
        let operations = self.resources.ledger.uses(id);
        if operations == 0 {
            self.resources.ledger.registrations.begin_copy(key);
            self.resources.ledger.exports.begin_copy(id);
            return Ok(());
        }
        self.offer(id);
        Err(Error::InUse { id, operations, holders: String::new() })
    }

    /// Ends a copy.
    pub(crate) fn end_copy(&mut self, id: MemoryId, key: RegistrationKey) {
        self.resources.ledger.registrations.end_copy(key);
        self.resources.ledger.exports.end_copy(id);
        self.offer(id);
    }

    /// Allows callers that do not wait for the engine to post on memory, while nothing is copied to
    /// or from it.
    fn offer(&self, id: MemoryId) {
        if let Ok(usable) = self.resources.ledger.registrations.usable(id) {
            self.inbox.offer(id, usable);
        }
    }

    /// Makes callers that post on this memory wait for the engine from now on. Posts handed in
    /// before are posted.
    pub(super) fn withhold(&mut self, id: MemoryId) {
        while !self.inbox.withhold(id) {
            self.post_handed_in();
        }
    }
}

impl Engine {
    /// Exports a range of a registration.
    pub(crate) fn export(
        &mut self,
        memory_id: MemoryId,
        options: ExportOptions,
    ) -> Result<RemoteKey> {
        self.check_open()?;
        let ExportOptions { access, offset, bytes, is_stable } = options;
        let registrations = &self.resources.ledger.registrations;
        let to_end = registrations.info(memory_id)?.bytes.saturating_sub(offset);
        let bytes = bytes.unwrap_or(to_end);
        let span = registrations.span(memory_id, offset, bytes, access.needs())?;
        if bytes == 0 {
            let problem = RegistrationProblem::Empty;
            return Err(Error::Registration { id: Some(memory_id), problem });
        }
        let range = ExportedRange { memory_id, span, bytes, access };
        let exports = &mut self.resources.ledger.exports;
        let export = match is_stable {
            true => exports.add_stable(range),
            false => exports.add(range, ExportSecret::new(random()?)),
        };
        Ok(export.remote_key(self.resources.session.identity.session))
    }

    /// Revokes a key. Peers may still use the memory, but cannot begin new uses.
    pub(crate) fn revoke(&mut self, key: &RemoteKey) -> Result<ExportKey> {
        let refuse = |problem| Error::Remote { peer: None, memory: key.memory_id, problem };
        if key.session != self.resources.session.identity.session {
            return Err(refuse(RemoteProblem::AnotherSession));
        }
        let exports = &mut self.resources.ledger.exports;
        let export = exports.open(key.export, &key.secret).map_err(|refusal| {
            refuse(match refusal {
                Refusal::Revoked => RemoteProblem::Revoked,
                _ => RemoteProblem::UnknownKey,
            })
        })?;
        exports.revoke(export);
        self.stop_serving_revoked();
        Ok(export)
    }
}
