//! Uses of registered memory, checked against its bounds and its allowed uses.

use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Access, MemoryType, RegistrationKey, Span};

use super::{MemoryInfo, Registration, Registrations};
use crate::error::{Error, RegistrationProblem, Result};

/// Registration that may be used: its range, and its allowed uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRegistration {
    key: RegistrationKey,
    info: MemoryInfo,
    /// Whether the plugin receives into host memory.
    receives_host: bool,
}

impl OpenRegistration {
    /// Checks a use of the registration against its bounds and its allowed uses. Returns where the
    /// bytes lie.
    pub(crate) fn span(&self, offset: u64, bytes: u64, access: Access) -> Result<Span> {
        let MemoryInfo { id, address, bytes: registered_bytes, memory, access: allowed } =
            self.info;
        let refuse = |problem| Err(Error::Registration { id: Some(id), problem });
        if offset.checked_add(bytes).is_none_or(|end| end > registered_bytes) {
            return refuse(RegistrationProblem::OutOfBounds { offset, bytes, registered_bytes });
        }
        if access == Access::ReadWrite && allowed == Access::ReadOnly {
            // Advice to register the memory for writing would be useless if that is refused.
            return refuse(match self.receives_host || memory == MemoryType::Device {
                true => RegistrationProblem::ReadOnly,
                false => RegistrationProblem::ReceiveIntoHostMemory,
            });
        }
        Ok(Span { registration: self.key, address: address + offset, memory })
    }
}

impl Registrations {
    /// Returns what a use is checked against, unless a copy to or from the registration is in
    /// progress.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`]; [`Error::Registration`] while it is being deregistered;
    /// [`Error::InUse`] during a copy.
    pub(crate) fn usable(&self, id: MemoryId) -> Result<OpenRegistration> {
        let (key, registered) = self.open(id)?;
        match registered.copies {
            0 => Ok(self.usable_of(id, (key, registered))),
            _ => Err(Error::being_copied(id)),
        }
    }

    /// Checks a use of a registration, and returns where the bytes lie. Copies may be in progress.
    pub(crate) fn span(
        &self,
        id: MemoryId,
        offset: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Span> {
        self.usable_of(id, self.open(id)?).span(offset, bytes, access)
    }

    #[inline]
    fn usable_of(
        &self,
        id: MemoryId,
        (key, open): (RegistrationKey, &Registration),
    ) -> OpenRegistration {
        OpenRegistration { key, info: open.info(id), receives_host: !self.refuses_host }
    }
}
