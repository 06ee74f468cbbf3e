#![allow(unsafe_code)]
//! Operations between devices of a group and of others; and memory of all devices, and what of it
//! peers may reach.

use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::exports::remote_key::{RemoteKey, RemoteRange};
use tcpx_protocol::types::memory::{Device, MemoryId, OperationKind};
use tcpx_protocol::types::{Access, MemoryType};

use super::Group;
use super::splitting::{DevicePair, only_pair, split};
use crate::error::{Error, Result};
use crate::memory::MemoryAddress;
use crate::plugin::registrations::MemoryInfo;
use crate::session::Session;
use crate::session::operation::Operation;
use crate::session::operation::joint::Part;
use crate::settings::choices::ExportOptions;
use crate::transfer::MemoryRange;

impl Group {
    /// As [`Session::prepare`](crate::Session::prepare), of any devices at both ends, in all four
    /// ways: host or GPU here, host or GPU there; but no hardware plugin receives into memory of a
    /// host.
    ///
    /// Ranges of several devices are one operation all the same: its bytes go between each two
    /// devices by themselves, side by side, and it is done when all are. A notification comes after
    /// all bytes, with those that are sent last: a few, which take another round trip. When
    /// something fails between two devices the rest is given up, and the operation ends with that
    /// error once nothing of it uses memory.
    ///
    /// The first post between two devices connects them, and waits for that. Errors name the peer
    /// with the device, "decode/gpu1", and for ranges of several devices also the one here:
    /// "decode/gpu1 from gpu0".
    ///
    /// # Errors
    /// As there; [`Error::UnknownPeer`] for one whose connection info was not loaded, and that has
    /// not connected these devices itself.
    pub fn prepare(
        &self,
        peer: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
    ) -> Result<Operation> {
        if let Some((here, there)) = only_pair(local, remote) {
            let prepare =
                |name: &str, session: &Session| session.prepare(name, kind, local, remote);
            return self.with_pair(peer, (here, there), local.first(), prepare);
        }
        let parts = split(kind, local, remote).map_err(|problem| refused(peer, problem))?;
        let mut prepared = Vec::new();
        for part in parts {
            match self.prepare_part(peer, kind, &part) {
                Ok(ready) => prepared.push(ready),
                // Its ranges are empty, and were checked.
                Err(Error::Remote { problem: RemoteProblem::Nothing, .. }) => {}
                Err(error) => return Err(part.place(error).of_device(part.here)),
            }
        }
        self.front.join(peer, kind, prepared)
    }

    fn prepare_part(&self, peer: &str, kind: OperationKind, of: &DevicePair<'_>) -> Result<Part> {
        let DevicePair { here, there, local, remote, .. } = of;
        self.with_pair(peer, (*here, *there), local.first(), |name, session| {
            session.prepare_part(name, kind, local, remote, *here)
        })
    }

    /// Does something with the session of a device here, which knows the way to one there.
    fn with_pair<T>(
        &self,
        peer: &str,
        (here, there): (Device, Device),
        local: Option<&MemoryRange>,
        call: impl FnOnce(&str, &Session) -> Result<T>,
    ) -> Result<T> {
        let (called, info) = self.members.names.way(peer, there);
        let name = there.name_in(&called);
        let prepare = |session: &Session| {
            if let Some(info) = info {
                session.know(&name, info)?;
            }
            call(&name, session)
        };
        self.with_known(here, prepare, || match local {
            Some(range) => Error::UnknownRegistration { id: range.memory },
            None => Error::Closed,
        })
    }
}

/// The error of ranges that make no operation with this peer.
fn refused(peer: &str, problem: RemoteProblem) -> Error {
    Error::Remote { peer: Some(peer.to_owned()), memory: None, problem }
}

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
