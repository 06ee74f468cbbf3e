#![cfg_attr(test, allow(unsafe_code))]
//! The staging buffer of a lane that sends: scattered small messages are copied together there, a
//! chunk in each slot.

use crate::error::Result;
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::registrations::Registrations;
use crate::types::{MemoryType, RegistrationKey, Span};

/// Slots begin on pages, as the plugin wants device memory to.
const PAGE_BYTES: u64 = 4096;

/// What a staging buffer is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagingSource<'a> {
    /// Gathered chunks that a lane may have under way.
    pub(crate) slots: usize,
    pub(crate) chunk_bytes: u32,
    /// What device memory is in the session.
    pub(crate) device: &'a DeviceMemory,
}

/// As many slots as a lane may have gathered chunks under way, taken in turn: chunks leave in the
/// order in which they were gathered, so the slot whose turn it is has been sent.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Of the session's own memory; freed by [`Registrations::remove_own`].
    pub(crate) registration: RegistrationKey,
    address: u64,
    memory: MemoryType,
    slot_bytes: u64,
    slots: u64,
    taken: u64,
}

impl Staging {
    /// Allocates slots in memory of the kind that is gathered.
    pub(crate) fn new(
        memory: MemoryType,
        source: StagingSource<'_>,
        registrations: &mut Registrations,
    ) -> Result<Self> {
        let slots = source.slots.max(1) as u64;
        let slot_bytes = u64::from(source.chunk_bytes).next_multiple_of(PAGE_BYTES);
        // At most 16 slots of 4 MiB.
        let owned = source.device.allocate((slots * slot_bytes) as usize, memory)?;
        let address = owned.address();
        let registration = registrations.add_own(slots * slot_bytes, memory, owned);
        Ok(Self { registration, address, memory, slot_bytes, slots, taken: 0 })
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots as usize
    }

    /// The first slot, for registering all of them with a comm.
    pub(crate) fn first_slot(&self) -> Span {
        self.slot(0)
    }

    /// The slot for the next chunk. The caller has no more than `slots` chunks under way, this one
    /// included, and they leave in order.
    pub(crate) fn next_slot(&mut self) -> Span {
        let slot = self.slot(self.taken % self.slots);
        self.taken += 1;
        slot
    }

    fn slot(&self, index: u64) -> Span {
        let Self { registration, address, memory, slot_bytes, .. } = *self;
        Span { registration, address: address + index * slot_bytes, memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Access;
    use crate::types::memory_id::MemoryId;

    #[test]
    fn slots_come_in_turn_apart_and_on_pages() {
        let mut registrations = Registrations::default();
        let host = DeviceMemory::Emulated;
        let source = StagingSource { slots: 3, chunk_bytes: 5000, device: &host };
        let mut staging = Staging::new(MemoryType::Device, source, &mut registrations).unwrap();
        let starts: Vec<u64> = (0..4).map(|_| staging.next_slot().address).collect();
        assert_eq!(starts[0], starts[3], "three slots");
        assert_eq!([starts[1] - starts[0], starts[2] - starts[1]], [8192; 2]);
        assert_eq!(starts[0] % PAGE_BYTES, 0);
        // The last byte of the last slot is there to be written.
        let byte = [7; 1];
        // SAFETY: see above; nobody else knows of this memory.
        unsafe { host.write(starts[2] + 8191, &byte) }.unwrap();
    }

    #[test]
    fn callers_ids_do_not_show_it() {
        let mut registrations = Registrations::default();
        let device = &DeviceMemory::Emulated;
        let source = StagingSource { slots: 1, chunk_bytes: 4096, device };
        let staging = Staging::new(MemoryType::Host, source, &mut registrations).unwrap();
        assert_eq!(registrations.id_of(staging.registration), None);
        assert!(registrations.info(MemoryId::after(0)).is_err());
        let id = registrations.add(4096, 1, MemoryType::Host, Access::ReadOnly, None).unwrap();
        assert_eq!(id, MemoryId::after(0));
        registrations.remove_own(staging.registration);
        assert_eq!(registrations.start_of(staging.registration), None);
    }
}
