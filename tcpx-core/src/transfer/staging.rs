//! The staging buffer of a lane that sends: scattered small messages are copied together there, a
//! chunk in each slot.

use tcpx_protocol::types::{MemoryType, RegistrationKey, Span};

/// As many slots as a lane may have gathered chunks under way, taken in turn: chunks leave in the
/// order in which they were gathered, so the slot whose turn it is has been sent.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Of the session's own memory; goes back to the
    /// [`StagingPool`](super::staging_pool::StagingPool).
    pub(crate) registration: RegistrationKey,
    address: u64,
    memory: MemoryType,
    slot_bytes: u64,
    slots: u64,
    taken: u64,
}

impl Staging {
    /// `slots` slots from `address` on, at least one.
    pub(super) fn new(
        registration: RegistrationKey,
        address: u64,
        memory: MemoryType,
        slot_bytes: u64,
        slots: u64,
    ) -> Self {
        Self { registration, address, memory, slot_bytes, slots: slots.max(1), taken: 0 }
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

    #[test]
    fn slots_come_in_turn() {
        let key = RegistrationKey::default();
        let mut staging = Staging::new(key, 4096, MemoryType::Device, 8192, 3);
        let starts: Vec<u64> = (0..4).map(|_| staging.next_slot().address).collect();
        assert_eq!(starts, [4096, 12_288, 20_480, 4096], "three slots");
        assert_eq!(staging.first_slot().address, 4096);
    }
}
