#![allow(unsafe_code)]
//! Memory that was made known to the session, and through it to each comm that needs it.
//!
//! A registration is made on a comm when a chunk first needs it there, and kept until the registration or the comm
//! goes. The plugin takes sizes as `int` and offsets as 32 bit, so long memory is registered in segments of 1 GiB that
//! overlap by the largest chunk: every chunk lies whole in one of them.

use std::collections::HashMap;

use crate::comm::{MemoryHandle, Registrar};
use crate::error::{Error, Result};
use crate::memory::{HostBuffer, MemoryType};
use crate::settings::MAX_CHUNK_BYTES;

/// Distance between the starts of two segments.
const SEGMENT_BYTES: u64 = 1 << 30;
/// The plugin wants device memory on page boundaries, and CUDA whole pages.
const PAGE_BYTES: u64 = 4096;

/// A comm's place in each registration's table of handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CommId(pub(crate) u32);

/// What a caller may know of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Its id.
    pub id: u64,
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of memory.
    pub memory: MemoryType,
    /// Whether it is received into.
    pub is_recv: bool,
}

#[derive(Debug)]
struct Registration {
    info: MemoryInfo,
    /// Posted operations that use it.
    operations: usize,
    /// By comm and segment.
    handles: HashMap<(CommId, u64), MemoryHandle>,
    /// Memory that this registration owns.
    owned: Option<HostBuffer>,
}

/// All registrations of a session, by id from 1 upwards. Ids are never used twice.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    by_id: HashMap<u64, Registration>,
    last_id: u64,
}

/// A span of a registration that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: u64,
    pub(crate) address: u64,
    pub(crate) memory: MemoryType,
}

impl Registrations {
    /// Adds memory that the caller keeps alive, or that `owned` is.
    pub(crate) fn add(
        &mut self,
        address: u64,
        bytes: u64,
        memory: MemoryType,
        is_recv: bool,
        owned: Option<HostBuffer>,
    ) -> Result<u64> {
        let refuse = |reason: &str| Err(Error::Registration { id: 0, reason: reason.to_owned() });
        if address == 0 {
            return refuse("the address is NULL");
        }
        if bytes == 0 {
            return refuse("the size is 0");
        }
        if address.checked_add(bytes).is_none_or(|end| end > i64::MAX as u64) {
            return refuse("address and size reach past the end of memory");
        }
        self.last_id += 1;
        let id = self.last_id;
        let info = MemoryInfo { id, address, bytes, memory, is_recv };
        self.by_id.insert(id, Registration { info, operations: 0, handles: HashMap::new(), owned });
        Ok(id)
    }

    pub(crate) fn info(&self, id: u64) -> Result<MemoryInfo> {
        self.by_id
            .get(&id)
            .map(|registration| registration.info)
            .ok_or(Error::UnknownRegistration { id })
    }

    /// Whether the registration owns its memory, which makes reading and writing it through the session safe.
    pub(crate) fn is_owned(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|registration| registration.owned.is_some())
    }

    /// Posted operations that use it.
    pub(crate) fn operations(&self, id: u64) -> usize {
        self.by_id.get(&id).map_or(0, |registration| registration.operations)
    }

    /// Checks a post against a registration.
    pub(crate) fn span(&self, id: u64, offset: u64, bytes: u64, receives: bool) -> Result<Span> {
        let info = self.info(id)?;
        if offset.checked_add(bytes).is_none_or(|end| end > info.bytes) {
            let reason =
                format!("offset {offset} and size {bytes} reach past its {} bytes", info.bytes);
            return Err(Error::Registration { id, reason });
        }
        if receives && !info.is_recv {
            let reason =
                "it was registered for sending; register it with is_recv to receive into it"
                    .to_owned();
            return Err(Error::Registration { id, reason });
        }
        Ok(Span { id, address: info.address + offset, memory: info.memory })
    }

    /// An operation begins to use a registration.
    pub(crate) fn begin(&mut self, id: u64) {
        if let Some(registration) = self.by_id.get_mut(&id) {
            registration.operations += 1;
        }
    }

    /// An operation has ended.
    pub(crate) fn end(&mut self, id: u64) {
        if let Some(registration) = self.by_id.get_mut(&id) {
            registration.operations = registration.operations.saturating_sub(1);
        }
    }

    /// The plugin's handle for a chunk at `address` on a comm, registering its segment when it is new there.
    ///
    /// # Safety
    /// Whoever added the registration vouched that its memory stays valid until it is removed.
    pub(crate) unsafe fn handle(
        &mut self,
        id: u64,
        address: u64,
        comm_id: CommId,
        comm: &impl Registrar,
    ) -> Result<MemoryHandle> {
        let registration = self.by_id.get_mut(&id).ok_or(Error::UnknownRegistration { id })?;
        let info = registration.info;
        let segment = (address - info.address) / SEGMENT_BYTES;
        if let Some(handle) = registration.handles.get(&(comm_id, segment)) {
            return Ok(*handle);
        }
        let (start, bytes) = segment_range(&info, segment);
        // SAFETY: the segment lies in memory that the caller of `add` keeps valid, rounded out to pages, which belong to
        // the same allocation or are never touched; `remove` and `forget_comm` take the handle back before that ends.
        let handle = unsafe { comm.register(start, bytes, info.memory.ptr_type()) }?;
        tracing::debug!(id, address = format_args!("{start:#x}"), bytes, memory = %info.memory, "registered with a comm");
        registration.handles.insert((comm_id, segment), handle);
        Ok(handle)
    }

    /// Takes a registration out. `deregister` is called for each comm that knows it.
    pub(crate) fn remove(
        &mut self,
        id: u64,
        mut deregister: impl FnMut(CommId, MemoryHandle),
    ) -> Result<()> {
        let operations = self.by_id.get(&id).ok_or(Error::UnknownRegistration { id })?.operations;
        if operations > 0 {
            return Err(Error::InUse { id, operations });
        }
        if let Some(mut registration) = self.by_id.remove(&id) {
            for ((comm, _), handle) in registration.handles.drain() {
                deregister(comm, handle);
            }
        }
        Ok(())
    }

    /// A comm is about to close: takes back every handle that it gave out.
    pub(crate) fn forget_comm(&mut self, comm_id: CommId, comm: &impl Registrar) {
        for registration in self.by_id.values_mut() {
            registration.handles.retain(|(known, _), handle| {
                if *known == comm_id {
                    comm.deregister(*handle);
                }
                *known != comm_id
            });
        }
    }
}

/// Start and size of a segment, rounded out to pages for device memory.
fn segment_range(info: &MemoryInfo, segment: u64) -> (u64, u32) {
    let offset = segment * SEGMENT_BYTES;
    let start = info.address + offset;
    let end = start + (info.bytes - offset).min(SEGMENT_BYTES + u64::from(MAX_CHUNK_BYTES));
    let (start, end) = match info.memory {
        MemoryType::Host => (start, end),
        MemoryType::Device => (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES)),
    };
    // At most 1 GiB, a chunk and two pages.
    (start, (end - start) as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn add(registrations: &mut Registrations, bytes: u64, memory: MemoryType) -> u64 {
        registrations.add(0x7000_0000_1234, bytes, memory, true, None).unwrap()
    }

    #[test]
    fn ids_start_at_one_and_are_never_used_twice() {
        let mut registrations = Registrations::default();
        assert_eq!(add(&mut registrations, 10, MemoryType::Host), 1);
        assert_eq!(add(&mut registrations, 10, MemoryType::Host), 2);
        registrations.remove(2, |_, _| {}).unwrap();
        assert_eq!(add(&mut registrations, 10, MemoryType::Host), 3);
    }

    #[test]
    fn posts_are_checked_against_bounds_and_direction() {
        let mut registrations = Registrations::default();
        let id = add(&mut registrations, 100, MemoryType::Device);
        assert!(registrations.span(id, 0, 100, true).is_ok());
        assert!(registrations.span(id, 100, 0, true).is_ok());
        for (offset, bytes) in [(0, 101), (100, 1), (u64::MAX, 2), (1, u64::MAX)] {
            assert!(matches!(
                registrations.span(id, offset, bytes, true),
                Err(Error::Registration { .. })
            ));
        }
        assert!(matches!(
            registrations.span(9, 0, 1, true),
            Err(Error::UnknownRegistration { id: 9 })
        ));
        let send_only = registrations.add(4096, 10, MemoryType::Host, false, None).unwrap();
        assert!(registrations.span(send_only, 0, 1, false).is_ok());
        assert!(registrations.span(send_only, 0, 1, true).is_err());
    }

    #[test]
    fn memory_that_cannot_be_is_refused() {
        let mut registrations = Registrations::default();
        for (address, bytes) in [(0, 10), (4096, 0), (u64::MAX, 10), (10, u64::MAX)] {
            assert!(registrations.add(address, bytes, MemoryType::Host, true, None).is_err());
        }
    }

    #[test]
    fn used_registrations_stay() {
        let mut registrations = Registrations::default();
        let id = add(&mut registrations, 100, MemoryType::Device);
        registrations.begin(id);
        assert!(matches!(
            registrations.remove(id, |_, _| {}),
            Err(Error::InUse { operations: 1, .. })
        ));
        registrations.end(id);
        assert!(registrations.remove(id, |_, _| {}).is_ok());
    }

    proptest! {
        #[test]
        fn every_chunk_lies_in_its_segment(
            address in 1u64..1 << 40, bytes in 1u64..5 << 30, offset in any::<u64>(), chunk in 1u64..=u64::from(MAX_CHUNK_BYTES),
            device in any::<bool>(),
        ) {
            let memory = if device { MemoryType::Device } else { MemoryType::Host };
            let info = MemoryInfo { id: 1, address, bytes, memory, is_recv: true };
            let offset = offset % bytes;
            let chunk = chunk.min(bytes - offset);
            let (start, length) = segment_range(&info, offset / SEGMENT_BYTES);
            prop_assert!(start <= address + offset);
            prop_assert!(start + u64::from(length) >= address + offset + chunk);
            prop_assert!(length <= i32::MAX as u32);
            if device {
                prop_assert_eq!((start % PAGE_BYTES, u64::from(length) % PAGE_BYTES), (0, 0));
            } else {
                prop_assert!(start >= address && start + u64::from(length) <= address + bytes);
            }
        }
    }
}
