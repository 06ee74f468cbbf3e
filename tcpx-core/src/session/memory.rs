#![allow(unsafe_code)]
//! The session's memory: registered, allocated, written and read.

use super::Session;
use crate::engine::Engine;
use crate::error::{Error, RegistrationProblem, Result};
use crate::memory::device_memory::{DeviceMemory, OwnedMemory};
use crate::memory::memory_address::MemoryAddress;
use crate::plugin::registrations::MemoryInfo;
use crate::types::memory_id::MemoryId;
use crate::types::{Access, MemoryType, Span};

impl Session {
    /// Makes memory known to the session and returns its id, from 1 upwards. It is valid for every peer and channel.
    ///
    /// `memory` says how it is received into: [`MemoryType::Host`] straight, [`MemoryType::Device`] through the bounce
    /// buffer. Any address, any size; the same memory may be registered more than once.
    ///
    /// # Errors
    /// [`Error::Registration`] when the memory cannot be, when the session's GPU does not reach device memory, or when the
    /// plugin cannot receive into memory of this type.
    ///
    /// # Safety
    /// `address` is the start of `bytes` bytes that stay valid until [`deregister_memory`](Self::deregister_memory) has
    /// returned `Ok` or the session is dropped: readable, and writable with [`Access::ReadWrite`]. While an operation is posted on a
    /// part of it, nobody else writes that part, and for receives nobody else reads it either.
    pub unsafe fn register_memory(
        &self,
        address: MemoryAddress,
        bytes: u64,
        memory: MemoryType,
        access: Access,
    ) -> Result<MemoryId> {
        self.register(address.get(), bytes, memory, access, None)
    }

    /// Allocates zeroed, page-aligned memory and registers it for both directions: host memory, or for
    /// [`MemoryType::Device`] memory of the session's GPU, if it has one. It is freed with its registration.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no memory, [`Error::MemoryUnavailable`] when the GPU has none; as for [`register_memory`](Self::register_memory).
    pub fn allocate(&self, bytes: u64, memory: MemoryType) -> Result<MemoryId> {
        let length = usize::try_from(bytes).map_err(|_| {
            let problem = RegistrationProblem::TooLarge { bytes };
            Error::Registration { id: None, problem }
        })?;
        let buffer = self.shared.engine().commons.session.memory.allocate(length, memory)?;
        self.register(buffer.address(), bytes, memory, Access::ReadWrite, Some(buffer))
    }

    fn register(
        &self,
        address: u64,
        bytes: u64,
        memory: MemoryType,
        access: Access,
        owned: Option<OwnedMemory>,
    ) -> Result<MemoryId> {
        let mut engine = self.shared.engine();
        let receives = access == Access::ReadWrite;
        if receives && memory == MemoryType::Host && engine.commons.session.plugin.is_hardware() {
            let problem = RegistrationProblem::ReceiveIntoHostMemory;
            return Err(Error::Registration { id: None, problem });
        }
        // What is wrong with an impossible range is said by `add`.
        let is_range = address != 0 && bytes != 0 && address.checked_add(bytes).is_some();
        if is_range
            && memory == MemoryType::Device
            && !engine.commons.session.memory.reaches(address, bytes)?
        {
            let problem = RegistrationProblem::OutOfGpuReach { address, bytes };
            return Err(Error::Registration { id: None, problem });
        }
        let id = engine.commons.ledger.registrations.add(address, bytes, memory, access, owned)?;
        tracing::debug!(
            %id, address = format_args!("{address:#x}"), bytes, %memory, ?access, "registered memory"
        );
        Ok(id)
    }

    /// Takes a registration back. Afterwards nobody touches its memory any more.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`]; [`Error::InUse`] while operations on it are posted.
    pub fn deregister_memory(&self, id: MemoryId) -> Result<()> {
        self.shared.engine().deregister(id)
    }

    /// What is known of a registration.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`].
    pub fn memory_info(&self, id: MemoryId) -> Result<MemoryInfo> {
        self.shared.engine().commons.ledger.registrations.info(id)
    }

    /// Copies bytes into memory made by [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// [`Error::InUse`] while operations on it are posted; [`Error::Registration`] when the bytes do not fit or the
    /// memory is not the session's own.
    pub fn write_memory(&self, id: MemoryId, offset: u64, bytes: &[u8]) -> Result<()> {
        let engine = self.shared.engine();
        let span = own_span(&engine, id, offset, bytes.len())?;
        // SAFETY: the span lies in memory that the registration owns; the engine is locked and no operation is posted on
        // it, so nobody else touches it.
        unsafe { memory_of(&engine, span).write(span.address, bytes) }
    }

    /// Copies bytes out of memory made by [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// As for [`write_memory`](Self::write_memory).
    pub fn read_memory(&self, id: MemoryId, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let engine = self.shared.engine();
        let span = own_span(&engine, id, offset, bytes.len())?;
        // SAFETY: as for `write_memory`.
        unsafe { memory_of(&engine, span).read(span.address, bytes) }
    }
}

/// What copies to and from a span.
fn memory_of(engine: &Engine, span: Span) -> &DeviceMemory {
    match span.memory {
        MemoryType::Host => &DeviceMemory::Emulated,
        MemoryType::Device => &engine.commons.session.memory,
    }
}

fn own_span(engine: &Engine, id: MemoryId, offset: u64, bytes: usize) -> Result<Span> {
    let registrations = &engine.commons.ledger.registrations;
    let span = registrations.span(id, offset, bytes as u64, Access::ReadOnly)?;
    if !registrations.is_owned(id) {
        let problem = RegistrationProblem::NotOwned;
        return Err(Error::Registration { id: Some(id), problem });
    }
    match registrations.operations(id) {
        0 => Ok(span),
        operations => Err(Error::InUse { id, operations }),
    }
}
