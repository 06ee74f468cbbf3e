#![allow(unsafe_code)]
//! A group's memory: registered, allocated, exported, written and read.

use tcpx_protocol::error::remote_problem::RemoteProblem;
use tcpx_protocol::exports::remote_key::RemoteKey;
use tcpx_protocol::types::device::Device;
use tcpx_protocol::types::memory_id::MemoryId;
use tcpx_protocol::types::{Access, MemoryType};

use super::Group;
use crate::error::{Error, Result};
use crate::memory::memory_address::MemoryAddress;
use crate::plugin::registrations::MemoryInfo;
use crate::session::Session;
use crate::settings::export_options::ExportOptions;

/// What the memory of a device is.
fn memory_of(device: Device) -> MemoryType {
    match device {
        Device::Host => MemoryType::Host,
        Device::Gpu(_) => MemoryType::Device,
    }
}

impl Group {
    /// As [`Session::register_memory`], memory of a device. The session of the device is made if
    /// there is none. The id says which device it is, so it is unlike that of any other memory of
    /// the group.
    ///
    /// # Errors
    /// As there; what is wrong with a device that cannot be used.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn register_memory(
        &self,
        device: Device,
        address: MemoryAddress,
        bytes: u64,
        access: Access,
    ) -> Result<MemoryId> {
        self.with(device, |session| {
            // SAFETY: passed on from the caller.
            unsafe { session.register_memory(address, bytes, memory_of(device), access) }
        })
    }

    /// As [`Session::allocate`], memory of a device.
    ///
    /// # Errors
    /// As there; what is wrong with a device that cannot be used.
    pub fn allocate(&self, device: Device, bytes: u64) -> Result<MemoryId> {
        self.with(device, |session| session.allocate(bytes, memory_of(device)))
    }

    /// As [`Session::register_buffer`]: memory of the host.
    ///
    /// # Errors
    /// As there.
    pub fn register_buffer(
        &self,
        buffer: impl Into<Box<[u8]>>,
        access: Access,
    ) -> Result<MemoryId> {
        self.front.register_buffer(buffer, access)
    }

    /// As [`Session::take_buffer`].
    ///
    /// # Errors
    /// As there.
    pub fn take_buffer(&self, id: MemoryId) -> Result<Box<[u8]>> {
        self.of(id, |session| session.take_buffer(id))
    }

    /// As [`Session::deregister_memory`]: waits for peers of all groups that use it.
    ///
    /// # Errors
    /// As there.
    pub fn deregister_memory(&self, id: MemoryId) -> Result<()> {
        self.of(id, |session| session.deregister_memory(id))
    }

    /// As [`Session::memory_info`].
    ///
    /// # Errors
    /// As there.
    pub fn memory_info(&self, id: MemoryId) -> Result<MemoryInfo> {
        self.of(id, |session| session.memory_info(id))
    }

    /// As [`Session::write_memory`].
    ///
    /// # Errors
    /// As there.
    pub fn write_memory(&self, id: MemoryId, offset: u64, bytes: &[u8]) -> Result<()> {
        self.of(id, |session| session.write_memory(id, offset, bytes))
    }

    /// As [`Session::read_memory`].
    ///
    /// # Errors
    /// As there.
    pub fn read_memory(&self, id: MemoryId, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.of(id, |session| session.read_memory(id, offset, bytes))
    }

    /// As [`Session::export`]. The key says which device of which group it leads to.
    ///
    /// # Errors
    /// As there.
    pub fn export(&self, memory: MemoryId, options: ExportOptions) -> Result<RemoteKey> {
        self.of(memory, |session| session.export(memory, options))
    }

    /// As [`Session::unexport`].
    ///
    /// # Errors
    /// As there.
    pub fn unexport(&self, key: &RemoteKey) -> Result<()> {
        let (memory, problem) = (key.memory_id, RemoteProblem::AnotherSession);
        self.with_known(
            Device::of_session(&key.session),
            |session| session.unexport(key),
            || Error::Remote { peer: None, memory, problem },
        )
    }

    /// The device of memory with this id: what it was registered as.
    #[must_use]
    pub fn device_of(id: MemoryId) -> Device {
        Device::of_id(id.get())
    }

    /// Does something with the session that has this memory.
    fn of<T>(&self, id: MemoryId, call: impl FnOnce(&Session) -> Result<T>) -> Result<T> {
        self.with_known(Self::device_of(id), call, || Error::UnknownRegistration { id })
    }
}
