#![allow(unsafe_code)]
//! Memory of the session: registered, allocated, written and read.

use std::sync::Arc;
use std::task::Poll;

use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Access, MemoryType, Span};

use super::Session;
use super::shared::SharedEngine;
use crate::engine::Engine;
use crate::engine::deregistration::Deregistered;
use crate::error::{Error, RegistrationProblem, Result};
use crate::memory::device_memory::{DeviceMemory, OwnedMemory};
use crate::memory::host_buffer::LentBuffer;
use crate::memory::{MemoryAddress, NewRegistration, Placement};
use crate::plugin::handle_table::device_segments;
use crate::plugin::registrations::MemoryInfo;
use crate::plugin::registrations::stage::PendingDeregistration;

impl Session {
    /// Registers memory with the session and returns its id, from 1 upwards. The id is valid for
    /// every peer and channel.
    ///
    /// `place` says how the memory is received into: [`MemoryType::Host`] directly,
    /// [`MemoryType::Device`], or a GPU, through the bounce buffer. Any address and any size are
    /// allowed; the same memory may be registered more than once.
    ///
    /// A session of [all devices](crate::SessionOptions::all_devices) takes a
    /// [`Device`](crate::Device), and opens a GPU with its first memory, which may take a while.
    /// The id says which device the memory is on. Other sessions take memory of the host and of
    /// their GPU.
    ///
    /// # Errors
    /// [`Error::Registration`] when the memory cannot be registered, or when the plugin cannot
    /// receive into memory of this type. Also when the session's GPU does not reach device memory,
    /// or may only read memory that is registered for receives. A hardware plugin needs device
    /// memory that the driver exports in whole pages of 4096 bytes.
    ///
    /// # Safety
    /// `address` is the start of `bytes` bytes that stay valid until
    /// [`deregister_memory`](Self::deregister_memory) or [`close`](Self::close) has returned `Ok`,
    /// or [`is_settled`](Self::is_settled) is true of a closed session. Dropping the session does
    /// not guarantee this: a GPU that hangs may write later. The bytes are readable, and writable
    /// with [`Access::ReadWrite`]. An operation may be posted on a part of the memory here, or by a
    /// peer that the memory is [exported](Self::export) to. Meanwhile no other code writes that
    /// part; and no other code reads the part either if it is received into, or written by the
    /// peer.
    pub unsafe fn register_memory(
        &self,
        address: MemoryAddress,
        bytes: u64,
        place: impl Into<Placement>,
        access: Access,
    ) -> Result<MemoryId> {
        let (shared, memory) = self.engine_for(place.into())?;
        shared.register(NewRegistration { address, bytes, memory, access }, None)
    }

    /// Registers many ranges, all of them or none, and returns their ids in the order of the list.
    ///
    /// # Errors
    /// [`Error::ListedRegistration`] for the first range that
    /// [`register_memory`](Self::register_memory) would refuse; its other errors.
    ///
    /// # Safety
    /// The conditions of [`register_memory`](Self::register_memory) hold for each range.
    pub unsafe fn register_memory_list(&self, list: &[NewRegistration]) -> Result<Vec<MemoryId>> {
        for (index, registration) in list.iter().enumerate() {
            self.engine_for(registration.memory.into())
                .and_then(|(shared, _)| shared.check_memory(registration))
                .map_err(|error| error.at_index_of_list(index))?;
        }
        let ids = self.shared.engine()?.register_list(list)?;
        tracing::debug!(count = ids.len(), first = ?ids.first(), "registered a list of memory");
        Ok(ids)
    }

    /// Allocates zeroed, page-aligned memory and registers it for both directions: host memory, or
    /// for [`MemoryType::Device`] memory of the session's GPU, if it has one. It is freed with its
    /// registration.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no memory, [`Error::MemoryUnavailable`] when the GPU has none;
    /// as for [`register_memory`](Self::register_memory).
    pub fn allocate(&self, bytes: u64, place: impl Into<Placement>) -> Result<MemoryId> {
        let (shared, memory) = self.engine_for(place.into())?;
        let refuse = |problem| Error::Registration { id: None, problem };
        let length = match usize::try_from(bytes) {
            Ok(0) => return Err(refuse(RegistrationProblem::Empty)),
            Ok(length) => length,
            Err(_) => return Err(refuse(RegistrationProblem::TooLarge { bytes })),
        };
        // A GPU may make this thread wait: no other thread waits.
        let kind = shared.engine()?.resources.session.memory.clone();
        let buffer = kind.allocate(length, memory)?;
        let address = MemoryAddress::from_device(buffer.address());
        let access = Access::ReadWrite;
        shared.register(NewRegistration { address, bytes, memory, access }, Some(buffer))
    }

    /// Takes over a buffer, a `Vec<u8>` or `Box<[u8]>`, and registers it as host memory.
    /// [`take_buffer`](Self::take_buffer) gives it back with what was received into it; until then
    /// [`read_memory`](Self::read_memory) and [`write_memory`](Self::write_memory) reach its bytes.
    /// A session that ends frees it.
    ///
    /// ```
    /// use tcpx_core::{Access, Post, Session, SessionOptions};
    /// # fn main() -> tcpx_core::Result<()> {
    /// # let options = || SessionOptions::default();
    /// # let (sender, receiver) = (Session::new(options())?, Session::new(options())?);
    /// # sender.load_remote_conn_info("receiver", &receiver.listen()?)?;
    /// # std::thread::scope(|scope| {
    /// #     let accepted = scope.spawn(|| receiver.accept("sender"));
    /// #     sender.connect("receiver")?;
    /// #     accepted.join().expect("no panic")
    /// # })?;
    /// // Two connected sessions: one sends from its buffer, the other receives into its own.
    /// let from = sender.register_buffer(b"hello".to_vec(), Access::ReadOnly)?;
    /// let to = receiver.register_buffer(vec![0; 5], Access::ReadWrite)?;
    /// let send = sender.create_transfer("receiver")?;
    /// let receive = receiver.create_transfer("sender")?;
    /// receive.post_recv(Post { memory: to, offset: 0, bytes: 5, tag: 1 })?;
    /// send.post_send(Post { memory: from, offset: 0, bytes: 5, tag: 1 })?;
    /// send.wait(None)?;
    /// receive.wait(None)?;
    /// assert_eq!(*receiver.take_buffer(to)?, *b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Registration`] when it is empty, or when the plugin cannot receive into host
    /// memory. The buffer is freed then.
    pub fn register_buffer(
        &self,
        buffer: impl Into<Box<[u8]>>,
        access: Access,
    ) -> Result<MemoryId> {
        let buffer = buffer.into();
        let bytes = buffer.len() as u64;
        let lent = LentBuffer::new(buffer);
        let address = MemoryAddress::from_device(lent.address());
        let registration = NewRegistration { address, bytes, memory: MemoryType::Host, access };
        self.shared.register(registration, Some(OwnedMemory::Lent(lent)))
    }

    /// Deregisters memory as [`deregister_memory`](Self::deregister_memory) does, and returns the
    /// buffer that [`register_buffer`](Self::register_buffer) took over.
    ///
    /// # Errors
    /// Those of [`deregister_memory`](Self::deregister_memory), and the buffer is not given back;
    /// [`Error::Registration`] for memory that was registered otherwise.
    pub fn take_buffer(&self, id: MemoryId) -> Result<Box<[u8]>> {
        self.holder_of(id)?.engine()?.resources.ledger.registrations.check_is_lent(id)?;
        match self.take_out(id)? {
            Some(OwnedMemory::Lent(buffer)) => Ok(buffer.into_box()),
            _ => Err(Error::Registration { id: Some(id), problem: RegistrationProblem::NotLent }),
        }
    }

    /// Deregisters memory. When the call returns `Ok`, nothing touches the memory any more, and
    /// memory that the session owns is freed. Freeing a GPU's memory waits until the GPU is idle,
    /// as the driver does, and the driver may make other threads that use the GPU wait with it.
    ///
    /// Every key to the memory is revoked first: peers' requests to the memory are refused from
    /// then on, and nothing is posted on it. Operations of this program on the memory are given up,
    /// with everything else that was posted to their transfers, as a
    /// [cancel](crate::Transfer::cancel) does, also those of dropped transfers and operations.
    /// Outstanding operations are waited for, for
    /// [`close_timeout`](crate::SessionOptions::close_timeout). Peers that use the memory even then
    /// are ended.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`]. [`Error::InUse`] when a plugin or a GPU does not let go of
    /// the memory within 10 s after that. [`Error::PluginHangs`] when the plugin does not return
    /// from deregistration within 10 s. In both cases the memory must stay as it is, the id
    /// remains, and another call waits again.
    pub fn deregister_memory(&self, id: MemoryId) -> Result<()> {
        self.take_out(id).map(drop)
    }

    /// Removes a registration, and returns the memory that it owned. The plugin has forgotten the
    /// registration by then. No thread waits for the plugin with the engine locked.
    fn take_out(&self, id: MemoryId) -> Result<Option<OwnedMemory>> {
        let shared = self.holder_of(id)?;
        let mut engine = shared.engine()?;
        engine.start_deregistering(id)?;
        let unused = engine.deregister(id)?;
        let workers = engine.resources.workers.clone();
        drop(engine);
        let unused = match unused {
            Poll::Ready(unused) => unused,
            Poll::Pending => self.deregister_when_unused(&shared, id)?,
        };
        let PendingDeregistration { returned, hang } = match unused {
            Deregistered::Out(owned) => return Ok(owned),
            Deregistered::Pending(pending) => pending,
        };
        if !workers.wait(&returned, self.release_timeout) {
            let error = Error::PluginHangs(hang);
            tracing::error!(%id, %error, "memory cannot be deregistered: it must stay as it is");
            return Err(error);
        }
        shared.engine()?.finish_deregistering(id)
    }

    fn deregister_when_unused(&self, shared: &SharedEngine, id: MemoryId) -> Result<Deregistered> {
        self.wait_for_users(
            shared,
            |engine| engine.deregister(id),
            |engine, waited| engine.end_users_of(id, waited),
            |engine| engine.still_used(id),
        )
    }

    /// Returns what is known of a registration.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`].
    pub fn memory_info(&self, id: MemoryId) -> Result<MemoryInfo> {
        self.holder_of(id)?.engine()?.resources.ledger.registrations.info(id)
    }

    /// Copies bytes into memory of the session: made by [`allocate`](Self::allocate), or taken over
    /// by [`register_buffer`](Self::register_buffer).
    ///
    /// # Errors
    /// [`Error::InUse`] while operations on it are posted, or peers use what is exported of it;
    /// [`Error::Registration`] when the bytes do not fit or the memory is not the session's own.
    pub fn write_memory(&self, id: MemoryId, offset: u64, bytes: &[u8]) -> Result<()> {
        self.copy(id, offset, bytes.len(), |memory, address| {
            // SAFETY: the span lies in memory that the registration owns. No operation is posted on
            // it, and none can be before `copy` returns, so the session does not touch it; nor can
            // a peer begin to use an export of it. Another thread may copy too: in host memory not
            // at the same time, since the engine is locked; on a GPU the driver does it.
            unsafe { memory.write(address, bytes) }
        })
    }

    /// Copies bytes out of memory of the session.
    ///
    /// # Errors
    /// As for [`write_memory`](Self::write_memory).
    pub fn read_memory(&self, id: MemoryId, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.copy(id, offset, bytes.len(), |memory, address| {
            // SAFETY: as for `write_memory`.
            unsafe { memory.read(address, bytes) }
        })
    }

    /// Copies to or from memory of the session. A GPU's copy may block, so other threads do not
    /// wait for it: the registration is marked instead.
    fn copy(
        &self,
        id: MemoryId,
        offset: u64,
        bytes: usize,
        copy: impl FnOnce(&DeviceMemory, u64) -> Result<()>,
    ) -> Result<()> {
        let shared = self.holder_of(id)?;
        let mut engine = shared.engine()?;
        let span = own_span(&engine, id, offset, bytes)?;
        let gpu = match (&engine.resources.session.memory, span.memory) {
            (gpu @ DeviceMemory::Cuda(_), MemoryType::Device) => gpu.clone(),
            _ => return copy(&DeviceMemory::Emulated, span.address),
        };
        engine.begin_copy(id, span.registration)?;
        drop(engine);
        let copied = copy(&gpu, span.address);
        if let Ok(mut engine) = shared.engine() {
            engine.end_copy(id, span.registration);
        }
        copied
    }
}

impl SharedEngine {
    /// Checks with plugin and driver that they support the memory as registered.
    fn check_memory(&self, registration: &NewRegistration) -> Result<()> {
        let NewRegistration { address, bytes, memory, access } = *registration;
        let address = address.get();
        let (device, plugin) = {
            let session = &self.engine()?.resources.session;
            (session.memory.clone(), Arc::clone(&session.plugin))
        };
        let receives = access == Access::ReadWrite;
        if receives && memory == MemoryType::Host && !plugin.receives_host() {
            let problem = RegistrationProblem::ReceiveIntoHostMemory;
            return Err(Error::Registration { id: None, problem });
        }
        // `add` reports an impossible range.
        let is_range = address != 0 && bytes != 0 && address.checked_add(bytes).is_some();
        if is_range && memory == MemoryType::Device {
            // The driver may be slow: no other thread waits for it.
            check_gpu_access(&device, address, bytes, access)?;
            if plugin.takes_dma_bufs(&device) {
                check_export(&device, address, bytes)?;
            }
        }
        Ok(())
    }

    fn register(
        &self,
        registration: NewRegistration,
        owned: Option<OwnedMemory>,
    ) -> Result<MemoryId> {
        self.check_memory(&registration)?;
        let NewRegistration { address, bytes, memory, access } = registration;
        let id = self.engine()?.register(address.get(), bytes, memory, access, owned)?;
        tracing::debug!(%id, %address, bytes, %memory, ?access, "registered memory");
        Ok(id)
    }
}

/// Refuses device memory that the session's GPU cannot use as the registration says.
fn check_gpu_access(device: &DeviceMemory, address: u64, bytes: u64, access: Access) -> Result<()> {
    let problem = if !device.reaches(address, bytes)? {
        RegistrationProblem::OutOfGpuReach { address, bytes }
    } else if access == Access::ReadWrite && !device.may_write(address, bytes)? {
        RegistrationProblem::ReadOnlyOnGpu { address, bytes }
    } else {
        return Ok(());
    };
    Err(Error::Registration { id: None, problem })
}

/// Refuses device memory without a dma-buf of the driver. A plugin that requests a dma-buf itself
/// may not survive the answer.
fn check_export(device: &DeviceMemory, address: u64, bytes: u64) -> Result<()> {
    for (address, bytes) in device_segments(address, bytes) {
        if !device.exports(address, bytes)? {
            let problem = RegistrationProblem::NotExportable { address, bytes };
            return Err(Error::Registration { id: None, problem });
        }
    }
    Ok(())
}

fn own_span(engine: &Engine, id: MemoryId, offset: u64, bytes: usize) -> Result<Span> {
    let registrations = &engine.resources.ledger.registrations;
    let span = registrations.span(id, offset, bytes as u64, Access::ReadOnly)?;
    if !registrations.is_owned(id) {
        let problem = RegistrationProblem::NotOwned;
        return Err(Error::Registration { id: Some(id), problem });
    }
    match engine.resources.ledger.uses(id) {
        0 => Ok(span),
        operations => Err(Error::InUse { id, operations, holders: String::new() }),
    }
}
