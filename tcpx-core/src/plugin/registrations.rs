#![allow(unsafe_code)]
//! Memory that was made known to the session, and through it to each comm that needs it.
//!
//! A registration is made on a comm when a chunk first needs it there, and kept until the
//! registration or the comm goes. The plugin takes sizes as `int` and offsets as 32 bit. So long
//! memory is registered in segments of 1 GiB that overlap by the largest chunk, and every chunk
//! lies whole in one of them.
//!
//! Registering may block, so a worker does it. The chunk that needs it, and those behind it on its
//! lane, wait.
//!
//! Registrations of the same range share one plugin registration on each comm, so a hit makes no
//! call of the plugin. It is taken back with the last of them, because memory that the caller has
//! freed must not stay exported.

mod leaving;
pub(crate) mod stage;
#[cfg(test)]
mod tests;

use foldhash::HashMap;
use slotmap::SlotMap;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_protocol::types::{Access, MemoryType, RegistrationKey, Span};

use self::stage::Stage;
use super::handle_table::{HandleTable, Region, RegionKey, Segment, segment_at};
use crate::error::{Error, RegistrationProblem, Result};
use crate::memory::device_memory::{DeviceMemory, OwnedMemory};
use crate::plugin::comm::{CommMemory, MemoryHandle, RegisteredRange, Registering, Registrar};
use crate::types::{CommId, PeerKey};
use crate::workers::Workers;

/// The least that a plugin registers of device memory.
const LANDING_BYTES: u64 = 4096;

/// What a caller may know of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Its id.
    pub id: MemoryId,
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of memory.
    pub memory: MemoryType,
    /// What it may be used for.
    pub access: Access,
}

/// Where a registration lies, and what it may be used for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usable {
    key: RegistrationKey,
    info: MemoryInfo,
    /// Whether the plugin receives into host memory.
    receives_host: bool,
}

impl Usable {
    /// Checks a use of the registration against its bytes and what it needs them for, and says
    /// where the bytes lie.
    pub(crate) fn span(&self, offset: u64, bytes: u64, access: Access) -> Result<Span> {
        let MemoryInfo { id, address, bytes: registered_bytes, memory, access: allowed } =
            self.info;
        let refuse = |problem| Err(Error::Registration { id: Some(id), problem });
        if offset.checked_add(bytes).is_none_or(|end| end > registered_bytes) {
            return refuse(RegistrationProblem::OutOfBounds { offset, bytes, registered_bytes });
        }
        if access == Access::ReadWrite && allowed == Access::ReadOnly {
            // To register it otherwise would be refused.
            return refuse(match self.receives_host || memory == MemoryType::Device {
                true => RegistrationProblem::ReadOnly,
                false => RegistrationProblem::ReceiveIntoHostMemory,
            });
        }
        Ok(Span { registration: self.key, address: address + offset, memory })
    }
}

#[derive(Debug)]
struct Registration {
    /// What the caller knows it by; memory of the session itself has none.
    id: Option<MemoryId>,
    address: u64,
    bytes: u64,
    memory: MemoryType,
    access: Access,
    /// `None`: no comm may know it any more.
    region: Option<RegionKey>,
    /// Posted operations that use it.
    operations: usize,
    /// Copies under way between it and the program's memory, while which nothing is posted on it.
    copies: usize,
    /// The memory, if this registration owns it.
    owned: Option<OwnedMemory>,
    stage: Stage,
}

/// All registrations of a session, by id from 1 upwards. Ids are never used twice.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    ids: HashMap<MemoryId, RegistrationKey>,
    registrations: SlotMap<RegistrationKey, Registration>,
    ranges: HashMap<(u64, u64, MemoryType), RegionKey>,
    regions: SlotMap<RegionKey, Region>,
    handles: HandleTable,
    /// Segments that workers are making known, by comm: a few for each.
    registering: HashMap<CommId, Vec<(Segment, Registering)>>,
    workers: Workers,
    /// The plugin does not receive into host memory.
    refuses_host: bool,
    ids_used: u64,
    free_comms: Vec<CommId>,
    /// Whose comm has each number, or had it last.
    owners: Vec<PeerKey>,
    /// Since the last question, a registration that is being deregistered has lost its last user.
    has_lost_users: bool,
    /// See [`landing`](Self::landing), which makes it.
    landing: Option<Span>,
}

impl Registrations {
    /// No memory yet. These workers make what is added known to comms, of a plugin that receives
    /// into host memory or not. Its ids come after so many.
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
        if address == 0 {
            return refuse(RegistrationProblem::NullAddress);
        }
        if bytes == 0 {
            return refuse(RegistrationProblem::Empty);
        }
        if address.checked_add(bytes).is_none_or(|end| end > i64::MAX as u64) {
            return refuse(RegistrationProblem::PastEndOfMemory);
        }
        let id = MemoryId::after(self.ids_used);
        self.ids_used += 1;
        let region = self.region(address, bytes, memory);
        let key = self.registrations.insert(Registration {
            id: Some(id),
            address,
            bytes,
            memory,
            access,
            region: Some(region),
            operations: 0,
            copies: 0,
            owned,
            stage: Stage::Open,
        });
        self.ids.insert(id, key);
        Ok(id)
    }

    /// Adds memory of the session itself. Callers do not know of it, so it has no id, and it stays
    /// until the session ends.
    pub(crate) fn add_own(
        &mut self,
        bytes: u64,
        memory: MemoryType,
        owned: OwnedMemory,
    ) -> RegistrationKey {
        let address = owned.address();
        let region = self.region(address, bytes, memory);
        self.registrations.insert(Registration {
            id: None,
            address,
            bytes,
            memory,
            access: Access::ReadOnly,
            region: Some(region),
            operations: 0,
            copies: 0,
            owned: Some(owned),
            stage: Stage::Open,
        })
    }

    /// What a receive names whose bytes belong to several places of host memory: a page of the
    /// session's own, as device memory. So the bytes come through the bounce buffer, and the lane
    /// unpacks them. Nothing of them goes to the page. `None`: the session has a GPU, whose
    /// unpacker does not reach host memory.
    pub(crate) fn landing(&mut self, device: &DeviceMemory) -> Result<Option<Span>> {
        if self.landing.is_none() && matches!(device, DeviceMemory::Emulated) {
            let memory = MemoryType::Device;
            let owned = device.allocate(LANDING_BYTES as usize, memory)?;
            let address = owned.address();
            let registration = self.add_own(LANDING_BYTES, memory, owned);
            self.landing = Some(Span { registration, address, memory });
        }
        Ok(self.landing)
    }

    /// The region of a range, which is one registration more than before.
    fn region(&mut self, address: u64, bytes: u64, memory: MemoryType) -> RegionKey {
        let region = *self.ranges.entry((address, bytes, memory)).or_insert_with(|| {
            self.regions.insert(Region { address, bytes, memory, registrations: 0 })
        });
        self.regions[region].registrations += 1;
        region
    }

    /// The id by which the caller knows a registration. `None`: it is gone, or the session's own.
    pub(crate) fn id_of(&self, key: RegistrationKey) -> Option<MemoryId> {
        self.registrations.get(key)?.id
    }

    /// Address of the first byte of a registration.
    pub(crate) fn start_of(&self, key: RegistrationKey) -> Option<u64> {
        self.registrations.get(key).map(|registration| registration.address)
    }

    fn by_id(&self, id: MemoryId) -> Result<(RegistrationKey, &Registration)> {
        let unknown = || Error::UnknownRegistration { id };
        let key = self.ids.get(&id).copied().ok_or_else(unknown)?;
        self.registrations.get(key).map(|registration| (key, registration)).ok_or_else(unknown)
    }

    /// What a caller may know of a registration.
    pub(crate) fn info(&self, id: MemoryId) -> Result<MemoryInfo> {
        let (_, &Registration { address, bytes, memory, access, .. }) = self.by_id(id)?;
        Ok(MemoryInfo { id, address, bytes, memory, access })
    }

    /// Whether a registration owns its memory. That makes it safe to read and write it through the
    /// session.
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

    /// Posted operations that use a registration.
    pub(crate) fn operations(&self, id: MemoryId) -> usize {
        self.by_id(id).map_or(0, |(_, registration)| registration.operations)
    }

    /// A registration that is not being deregistered.
    fn open(&self, id: MemoryId) -> Result<(RegistrationKey, &Registration)> {
        match self.by_id(id)? {
            open @ (_, Registration { stage: Stage::Open, .. }) => Ok(open),
            _ => {
                let problem = RegistrationProblem::Deregistered;
                Err(Error::Registration { id: Some(id), problem })
            }
        }
    }

    /// What a use is checked against, as long as nothing is copied to or from the registration.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`]; [`Error::Registration`] while it is being deregistered;
    /// [`Error::InUse`] during a copy.
    pub(crate) fn usable(&self, id: MemoryId) -> Result<Usable> {
        let (key, registered) = self.open(id)?;
        match registered.copies {
            0 => self.usable_of(id, key),
            _ => Err(Error::copied(id)),
        }
    }

    /// Checks a use of a registration, and says where the bytes lie. Others may be copying.
    pub(crate) fn span(
        &self,
        id: MemoryId,
        offset: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Span> {
        let (key, _) = self.open(id)?;
        self.usable_of(id, key)?.span(offset, bytes, access)
    }

    #[inline]
    fn usable_of(&self, id: MemoryId, key: RegistrationKey) -> Result<Usable> {
        Ok(Usable { key, info: self.info(id)?, receives_host: !self.refuses_host })
    }

    /// A copy to or from a registration begins.
    pub(crate) fn begin_copy(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.copies += 1;
        }
    }

    /// A copy has ended.
    pub(crate) fn end_copy(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.copies = registration.copies.saturating_sub(1);
            self.has_lost_users |= registration.is_free_to_leave();
        }
    }

    /// An operation begins to use a registration.
    pub(crate) fn begin(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.operations += 1;
        }
    }

    /// An operation has ended.
    pub(crate) fn end(&mut self, key: RegistrationKey) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.operations = registration.operations.saturating_sub(1);
            self.has_lost_users |= registration.is_free_to_leave();
        }
    }

    /// The plugin's handle for a chunk at `address` on a comm. `None`: the segment is new there,
    /// and a worker is making it known; ask again in the next round.
    ///
    /// # Safety
    /// Whoever added the registration vouched that its memory stays valid until it is removed. It
    /// is not removed, and the comm is not closed, before there was an answer or the comm was
    /// forgotten.
    pub(crate) unsafe fn handle(
        &mut self,
        key: RegistrationKey,
        address: u64,
        comm_id: CommId,
        comm: &impl Registrar,
    ) -> Result<Option<MemoryHandle>> {
        let gone = || {
            let problem = RegistrationProblem::Deregistered;
            Error::Registration { id: None, problem }
        };
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

    /// A place for a new comm of a peer.
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

    /// A comm closes: frees its place, and takes out every handle that the comm gave out, or is
    /// about to. The caller deregisters them.
    pub(crate) fn forget_comm(&mut self, comm_id: CommId) -> CommMemory {
        self.free_comms.push(comm_id);
        let of_comm = self.registering.remove(&comm_id).into_iter().flatten();
        let registering = of_comm.map(|(_, registering)| registering).collect();
        CommMemory { handles: self.handles.take_comm(comm_id), registering }
    }
}
