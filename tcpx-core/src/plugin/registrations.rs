#![allow(unsafe_code)]
//! Memory that was registered with the session, and through it with each comm that needs it.
//!
//! A registration is made on a comm when a chunk first needs it there, and kept until the
//! registration or the comm goes. A worker makes it, because the call may block. The chunk that
//! needs it, and those behind it on its lane, wait.
//!
//! The plugin takes sizes as `int` and offsets as 32 bit. So long memory is registered in segments
//! of 1 GiB that overlap by the largest chunk, and every chunk lies whole in one segment.
//!
//! Registrations of the same range share one plugin registration on each comm. The last one of a
//! range takes it back, because memory that the caller has freed must not stay exported.

pub(crate) mod checked_use;
mod removal;
pub(crate) mod stage;
#[cfg(test)]
mod tests;

use foldhash::HashMap;
use slotmap::SlotMap;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Access, MemoryType, RegistrationKey, Span};

use self::stage::RegistrationStage;
use super::handle_table::{HandleTable, Region, RegionKey, Segment, segment_at};
use crate::error::{Error, RegistrationProblem, Result};
use crate::memory::device_memory::{DeviceMemory, OwnedMemory};
use crate::plugin::comm::{
    CommMemory, MemoryHandle, PendingRegistration, RegisteredRange, Registrar,
};
use crate::types::{CommId, PeerKey};
use crate::workers::Workers;

/// Smallest size of device memory that a plugin registers.
const PLACEHOLDER_BYTES: u64 = 4096;

/// Description of a registration for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Id of the registration.
    pub id: MemoryId,
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of memory.
    pub memory: MemoryType,
    /// Allowed uses.
    pub access: Access,
}

#[derive(Debug)]
struct Registration {
    /// Id by which the caller knows the registration. Memory of the session itself has none.
    id: Option<MemoryId>,
    address: u64,
    bytes: u64,
    memory: MemoryType,
    access: Access,
    /// `None`: no comm may know it any more.
    region: Option<RegionKey>,
    /// Number of posted operations that use it.
    operations: usize,
    /// Number of copies in progress between it and the program's memory. Meanwhile no operation may
    /// be posted on it.
    copies: usize,
    /// The memory, if this registration owns it.
    owned: Option<OwnedMemory>,
    stage: RegistrationStage,
}

impl Registration {
    /// Returns its description, under this id.
    #[inline]
    fn info(&self, id: MemoryId) -> MemoryInfo {
        let &Self { address, bytes, memory, access, .. } = self;
        MemoryInfo { id, address, bytes, memory, access }
    }
}

/// All registrations of a session, by id from 1 upwards. Ids are never used twice.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    ids: HashMap<MemoryId, RegistrationKey>,
    registrations: SlotMap<RegistrationKey, Registration>,
    ranges: HashMap<(u64, u64, MemoryType), RegionKey>,
    regions: SlotMap<RegionKey, Region>,
    handles: HandleTable,
    /// Segments that workers are registering, by comm: a few for each.
    registering: HashMap<CommId, Vec<(Segment, PendingRegistration)>>,
    workers: Workers,
    /// Whether the plugin does not receive into host memory.
    refuses_host: bool,
    ids_used: u64,
    free_comms: Vec<CommId>,
    /// Owner of the comm with each number, or the last owner.
    owners: Vec<PeerKey>,
    /// Whether a draining registration has lost its last user since the last question.
    has_drained: bool,
    /// See [`placeholder`](Self::placeholder), which makes it.
    placeholder: Option<Span>,
}

impl Registrations {
    /// Makes an empty table. The workers register added memory with comms, of a plugin that
    /// receives into host memory or not. The ids of the table come after the first `ids_used`.
    pub(crate) fn new(workers: Workers, receives_host: bool, ids_used: u64) -> Self {
        Self { workers, refuses_host: !receives_host, ids_used, ..Self::default() }
    }

    /// Adds memory, and returns its id. `owned` is the memory itself; without it the caller keeps
    /// the memory alive. A range that is registered already is shared.
    pub(crate) fn add(
        &mut self,
        address: u64,
        bytes: u64,
        memory: MemoryType,
        access: Access,
        owned: Option<OwnedMemory>,
    ) -> Result<MemoryId> {
        let refuse = |problem| Err(Error::Registration { id: None, problem });
        match (address, bytes, address.checked_add(bytes)) {
            (0, ..) => return refuse(RegistrationProblem::NullAddress),
            (_, 0, _) => return refuse(RegistrationProblem::Empty),
            (.., Some(end)) if end <= i64::MAX as u64 => {}
            _ => return refuse(RegistrationProblem::PastEndOfMemory),
        }
        let id = MemoryId::after(self.ids_used);
        self.ids_used += 1;
        let key = self.insert(Some(id), (address, bytes, memory), access, owned);
        self.ids.insert(id, key);
        Ok(id)
    }

    /// Adds memory of the session itself, without an id. It stays until the session ends.
    pub(crate) fn add_own(
        &mut self,
        bytes: u64,
        memory: MemoryType,
        owned: OwnedMemory,
    ) -> RegistrationKey {
        let range = (owned.address(), bytes, memory);
        self.insert(None, range, Access::ReadOnly, Some(owned))
    }

    fn insert(
        &mut self,
        id: Option<MemoryId>,
        (address, bytes, memory): (u64, u64, MemoryType),
        access: Access,
        owned: Option<OwnedMemory>,
    ) -> RegistrationKey {
        let region = Some(self.region(address, bytes, memory));
        let stage = RegistrationStage::Open;
        self.registrations.insert(Registration {
            id,
            address,
            bytes,
            memory,
            access,
            region,
            operations: 0,
            copies: 0,
            owned,
            stage,
        })
    }

    /// Returns the placeholder page, for a receive whose bytes belong to several places of host
    /// memory. It counts as device memory, so the bytes come through the bounce buffer, and none
    /// goes to the page. `None`: the session has a GPU, whose unpacker does not reach host memory.
    pub(crate) fn placeholder(&mut self, device: &DeviceMemory) -> Result<Option<Span>> {
        if self.placeholder.is_none() && matches!(device, DeviceMemory::Emulated) {
            let memory = MemoryType::Device;
            let owned = device.allocate(PLACEHOLDER_BYTES as usize, memory)?;
            let address = owned.address();
            let registration = self.add_own(PLACEHOLDER_BYTES, memory, owned);
            self.placeholder = Some(Span { registration, address, memory });
        }
        Ok(self.placeholder)
    }

    /// Returns the region of a range, and counts one more registration of it.
    fn region(&mut self, address: u64, bytes: u64, memory: MemoryType) -> RegionKey {
        let region = *self.ranges.entry((address, bytes, memory)).or_insert_with(|| {
            self.regions.insert(Region { address, bytes, memory, registrations: 0 })
        });
        self.regions[region].registrations += 1;
        region
    }

    /// Returns the id by which the caller knows a registration. `None`: the registration is gone,
    /// or is the session's own.
    pub(crate) fn id_of(&self, key: RegistrationKey) -> Option<MemoryId> {
        self.registrations.get(key)?.id
    }

    /// Returns the address of the first byte of a registration.
    pub(crate) fn start_of(&self, key: RegistrationKey) -> Option<u64> {
        self.registrations.get(key).map(|registration| registration.address)
    }

    #[inline]
    fn by_id(&self, id: MemoryId) -> Result<(RegistrationKey, &Registration)> {
        let key = self.ids.get(&id).copied();
        let known = key.and_then(|key| Some((key, self.registrations.get(key)?)));
        // Most ids are known: no error is made for them.
        let Some(known) = known else { return Err(Error::UnknownRegistration { id }) };
        Ok(known)
    }

    /// Returns the description of a registration.
    pub(crate) fn info(&self, id: MemoryId) -> Result<MemoryInfo> {
        Ok(self.by_id(id)?.1.info(id))
    }

    /// Returns whether a registration owns its memory. Then it is safe to read and write it through
    /// the session.
    pub(crate) fn is_owned(&self, id: MemoryId) -> bool {
        self.by_id(id).is_ok_and(|(_, registration)| registration.owned.is_some())
    }

    /// Refuses a registration whose memory is not a buffer that was lent.
    pub(crate) fn check_is_lent(&self, id: MemoryId) -> Result<()> {
        match self.by_id(id)?.1.owned {
            Some(OwnedMemory::Lent(_)) => Ok(()),
            _ => Err(Error::Registration { id: Some(id), problem: RegistrationProblem::NotLent }),
        }
    }

    /// Returns the number of posted operations that use a registration.
    pub(crate) fn operations(&self, id: MemoryId) -> usize {
        self.by_id(id).map_or(0, |(_, registration)| registration.operations)
    }

    /// Returns a registration that is not being deregistered.
    #[inline]
    fn open(&self, id: MemoryId) -> Result<(RegistrationKey, &Registration)> {
        match self.by_id(id)? {
            open @ (_, Registration { stage: RegistrationStage::Open, .. }) => Ok(open),
            _ => Err(deregistered(Some(id))),
        }
    }

    /// Notes that a copy to or from a registration begins.
    pub(crate) fn begin_copy(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.copies += 1;
        }
    }

    /// Notes that a copy has ended.
    pub(crate) fn end_copy(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.copies = registration.copies.saturating_sub(1);
            self.has_drained |= registration.is_drained();
        }
    }

    /// Notes that an operation begins to use a registration.
    pub(crate) fn begin(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.operations += 1;
        }
    }

    /// Notes that an operation has ended.
    pub(crate) fn end(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.operations = registration.operations.saturating_sub(1);
            self.has_drained |= registration.is_drained();
        }
    }

    /// Returns the plugin's handle for a chunk at `address` on a comm. `None`: the segment is new
    /// there, and a worker is registering it; ask again in the next round.
    ///
    /// # Safety
    /// The caller that added the registration has promised that its memory stays valid until it is
    /// removed. Until there was an answer or the comm was forgotten, the registration is not
    /// removed, and the comm is not closed.
    pub(crate) unsafe fn handle(
        &mut self,
        key: RegistrationKey,
        address: u64,
        comm_id: CommId,
        comm: &impl Registrar,
    ) -> Result<Option<MemoryHandle>> {
        let gone = || deregistered(None);
        let registration = self.registrations.get(key).ok_or_else(gone)?;
        let region_key = registration.region.ok_or_else(gone)?;
        // A registration has the range of its region.
        let segment = segment_at(registration.address, address);
        if let Some(handle) = self.handles.get(comm_id, region_key, segment) {
            return Ok(Some(handle));
        }
        let place = (region_key, segment);
        let registering = self.registering.entry(comm_id).or_default();
        if let Some(index) = registering.iter().position(|(other, _)| *other == place) {
            let Some(registered) = registering[index].1.take() else { return Ok(None) };
            registering.swap_remove(index);
            let handle = registered?;
            self.handles.insert(comm_id, region_key, segment, handle);
            return Ok(Some(handle));
        }
        let region = self.regions.get(region_key).ok_or_else(gone)?;
        let (address, bytes) = region.segment_range(segment);
        let range = RegisteredRange { address, bytes, memory: region.memory };
        tracing::debug!(
            id = registration.id.map(MemoryId::get), address = format_args!("{address:#x}"), bytes,
            memory = %region.memory,
            "registering with a comm"
        );
        // SAFETY: the segment lies in memory that the callers of `add` and `add_own` keep valid.
        // It is rounded out to pages, which belong to the same allocation or are never touched.
        // `remove` and `forget_comm` take the handle back before the memory ends; the caller
        // vouches for the time until it is there.
        registering.push((place, unsafe { comm.register(range, &self.workers) }));
        Ok(None)
    }

    /// Reserves a number for a new comm of a peer.
    pub(crate) fn new_comm(&mut self, owner: PeerKey) -> CommId {
        match self.free_comms.pop() {
            Some(comm) => {
                self.owners[comm.0 as usize] = owner;
                comm
            }
            None => {
                self.owners.push(owner);
                CommId(self.owners.len() as u32 - 1)
            }
        }
    }

    /// Frees the number of a comm that closes. Takes out every handle that the comm gave out, or is
    /// about to give out. The caller deregisters them.
    pub(crate) fn forget_comm(&mut self, comm_id: CommId) -> CommMemory {
        self.free_comms.push(comm_id);
        let of_comm = self.registering.remove(&comm_id).into_iter().flatten();
        let pending = of_comm.map(|(_, pending)| pending).collect();
        CommMemory { handles: self.handles.take_comm(comm_id), pending }
    }
}

fn deregistered(id: Option<MemoryId>) -> Error {
    Error::Registration { id, problem: RegistrationProblem::Deregistered }
}
