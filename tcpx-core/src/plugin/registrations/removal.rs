//! End of a registration. It is closed to new users, loses its current users, is forgotten by its
//! comms, and is removed.

use tcpx_protocol::types::RegistrationKey;
use tcpx_protocol::types::memory::MemoryId;

use super::stage::{PendingDeregistration, RegistrationStage};
use super::{Registration, Registrations};
use crate::error::Result;
use crate::memory::device_memory::OwnedMemory;
use crate::plugin::comm::ReturnedHandles;

impl Registration {
    fn is_used(&self) -> bool {
        self.operations > 0 || self.copies > 0
    }

    /// Returns whether a deregistration that waits for its users has none left.
    pub(super) fn is_drained(&self) -> bool {
        !self.is_used() && !matches!(self.stage, RegistrationStage::Open)
    }
}

impl Registrations {
    /// Returns the key of a registration.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`](crate::Error::UnknownRegistration).
    pub(crate) fn key_of(&self, id: MemoryId) -> Result<RegistrationKey> {
        self.by_id(id).map(|(key, _)| key)
    }

    /// Closes a registration to new users. Returns its key.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`](crate::Error::UnknownRegistration).
    pub(crate) fn begin_draining(&mut self, id: MemoryId) -> Result<RegistrationKey> {
        let key = self.key_of(id)?;
        if let Some(registration) = self.registrations.get_mut(key)
            && matches!(registration.stage, RegistrationStage::Open)
        {
            registration.stage = RegistrationStage::Draining;
        }
        Ok(key)
    }

    /// Returns whether operations or copies of the program use a registration.
    pub(crate) fn is_used(&self, key: RegistrationKey) -> bool {
        self.registrations.get(key).is_some_and(Registration::is_used)
    }

    /// Returns whether the program copies to or from a registration.
    pub(crate) fn is_copied(&self, key: RegistrationKey) -> bool {
        self.registrations.get(key).is_some_and(|registration| registration.copies > 0)
    }

    /// Returns whether a registration that is being deregistered has lost its last user since the
    /// last call.
    pub(crate) fn take_has_drained(&mut self) -> bool {
        std::mem::take(&mut self.has_drained)
    }

    /// Returns the calls that take a registration back from its comms, once they are in progress.
    pub(crate) fn pending_deregistration(
        &self,
        key: RegistrationKey,
    ) -> Option<&PendingDeregistration> {
        match &self.registrations.get(key)?.stage {
            RegistrationStage::Deregistering(pending) => Some(pending),
            RegistrationStage::Open | RegistrationStage::Draining => None,
        }
    }

    /// Notes the calls that take a registration back from its comms.
    pub(crate) fn set_pending_deregistration(
        &mut self,
        key: RegistrationKey,
        pending: PendingDeregistration,
    ) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.stage = RegistrationStage::Deregistering(pending);
        }
    }

    /// Takes out the handles that comms have given out for an unused registration, unless another
    /// registration shares its range. The caller deregisters them.
    pub(crate) fn take_handles(&mut self, key: RegistrationKey) -> ReturnedHandles {
        let mut handles = ReturnedHandles::default();
        let registration = self.registrations.get_mut(key);
        let Some(key) = registration.and_then(|it| it.region.take()) else { return handles };
        let Some(region) = self.regions.get_mut(key) else { return handles };
        region.registrations -= 1;
        if region.registrations == 0 {
            let owners = &self.owners;
            self.handles.take_region(key, |comm, handle| {
                let owner = owners.get(comm.0 as usize).copied().unwrap_or_default();
                handles.push(comm, owner, handle);
            });
            self.ranges.remove(&(region.address, region.bytes, region.memory));
            self.regions.remove(key);
        }
        handles
    }

    /// Removes a registration that nothing uses and no comm knows. Returns the memory that it
    /// owned.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`](crate::Error::UnknownRegistration).
    pub(crate) fn remove(&mut self, id: MemoryId) -> Result<Option<OwnedMemory>> {
        let key = self.key_of(id)?;
        self.ids.remove(&id);
        Ok(self.registrations.remove(key).and_then(|registration| registration.owned))
    }
}
