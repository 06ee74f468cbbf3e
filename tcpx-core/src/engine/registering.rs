//! Memory that comes, or is being copied, and what of it peers may reach.
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

impl Engine {
    /// Exports a range of a registration.
    pub(crate) fn export(
        &mut self,
        memory_id: MemoryId,
        options: ExportOptions,
    ) -> Result<RemoteKey> {
        self.check_open()?;
        let ExportOptions { access, offset, bytes, is_stable } = options;
        let registrations = &self.commons.ledger.registrations;
        let to_end = registrations.info(memory_id)?.bytes.saturating_sub(offset);
        let bytes = bytes.unwrap_or(to_end);
        let span = registrations.span(memory_id, offset, bytes, access.needs())?;
        if bytes == 0 {
            let problem = RegistrationProblem::Empty;
            return Err(Error::Registration { id: Some(memory_id), problem });
        }
        let range = ExportedRange { memory_id, span, bytes, access };
        let exports = &mut self.commons.ledger.exports;
        let export = match is_stable {
            true => exports.add_stable(range),
            false => exports.add(range, ExportSecret::new(random()?)),
        };
        Ok(export.remote_key(self.commons.session.identity.session))
    }

    /// Takes back what a key opens. Peers may still use it, and cannot begin to any more.
    pub(crate) fn revoke(&mut self, key: &RemoteKey) -> Result<ExportKey> {
        let refuse = |problem| Error::Remote { peer: None, memory: key.memory_id, problem };
        if key.session != self.commons.session.identity.session {
            return Err(refuse(RemoteProblem::AnotherSession));
        }
        let exports = &mut self.commons.ledger.exports;
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
