#![cfg_attr(test, allow(unsafe_code))]
//! Pool of the memory in which all lanes of a session gather. The memory is allocated as lanes ask
//! for it, up to a limit, and used again by other lanes when one has closed.
//!
//! The memory is freed with the session and not before. A GPU frees memory only when all its work
//! has ended, and that of the program, too: a peer that leaves must not make the program wait.
//!
//! The staging buffer of a lane that sends is a part of the pool: scattered small messages are
//! copied together there, a chunk in each slot.

use std::fmt::Display;

use tcpx_protocol::types::{MemoryType, RegistrationKey, Span};

use crate::memory::device_memory::DeviceMemory;
use crate::plugin::registrations::Registrations;
use crate::stats::report::StagingMemory;

/// Slots begin on pages, as the plugin wants device memory to.
const PAGE_BYTES: u64 = 4096;

/// Request of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagingRequest<'a> {
    /// The kind of memory that is gathered.
    pub(crate) memory: MemoryType,
    /// Gathered chunks that the lane may have under way: the most slots that it can use.
    pub(crate) slots: usize,
    pub(crate) chunk_bytes: u32,
    /// Device memory of the session.
    pub(crate) device: &'a DeviceMemory,
}

/// A buffer, which stays allocated.
#[derive(Clone, Copy, Debug)]
struct StagingBuffer {
    /// Registration of the session's own memory.
    registration: RegistrationKey,
    address: u64,
    bytes: u64,
    memory: MemoryType,
    is_used: bool,
}

/// Place for a lane's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BufferChoice {
    /// In a buffer that no lane uses.
    Idle(usize),
    /// In a new one of this many bytes.
    New(u64),
}

/// All staging buffers of a session.
#[derive(Debug, Default)]
pub(crate) struct StagingPool {
    limit_bytes: u64,
    buffers: Vec<StagingBuffer>,
    allocated_bytes: u64,
    used_bytes: u64,
    /// Whether the log has said that some channels go without, which it does once.
    has_warned: bool,
}

impl StagingPool {
    /// Makes a pool that allocates this many bytes at most, of both kinds of memory together.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, ..Self::default() }
    }

    /// Returns the state of the pool in numbers.
    pub(crate) fn report(&self) -> StagingMemory {
        let Self { limit_bytes, allocated_bytes, used_bytes, .. } = *self;
        StagingMemory { limit_bytes, allocated_bytes, used_bytes }
    }

    /// Slots for a lane, which are its own until [`give_back`](Self::give_back): as many as it asks
    /// for, or fewer if the limit leaves no more. `None`: it leaves none, or there is no memory.
    pub(crate) fn take(
        &mut self,
        request: StagingRequest<'_>,
        registrations: &mut Registrations,
    ) -> Option<Staging> {
        let slot_bytes = u64::from(request.chunk_bytes).max(1).next_multiple_of(PAGE_BYTES);
        let slots = request.slots.max(1) as u64;
        loop {
            let index = match self.choose(request.memory, slots, slot_bytes) {
                Some(BufferChoice::Idle(index)) => index,
                Some(BufferChoice::New(bytes)) => {
                    match self.allocate(bytes, request, registrations) {
                        Some(index) => index,
                        None => continue,
                    }
                }
                None => {
                    self.warn_once("the limit staging_bytes is reached");
                    return None;
                }
            };
            let buffer = &mut self.buffers[index];
            buffer.is_used = true;
            self.used_bytes += buffer.bytes;
            let StagingBuffer { registration, address, bytes, memory, .. } = *buffer;
            let slots = slots.min(bytes / slot_bytes);
            return Some(Staging::new(registration, address, memory, slot_bytes, slots));
        }
    }

    /// Chooses an idle buffer of about the right size, else a new one, else the buffer that has the
    /// most slots.
    fn choose(&self, memory: MemoryType, slots: u64, slot_bytes: u64) -> Option<BufferChoice> {
        let wanted = slots * slot_bytes;
        let idle = || {
            let buffers = self.buffers.iter().enumerate();
            buffers.filter(|(_, buffer)| !buffer.is_used && buffer.memory == memory)
        };
        let fits = |bytes: u64| (wanted..=2 * wanted).contains(&bytes);
        let fitting = idle().filter(|(_, buffer)| fits(buffer.bytes));
        if let Some((index, _)) = fitting.min_by_key(|(_, buffer)| buffer.bytes) {
            return Some(BufferChoice::Idle(index));
        }
        let left = self.limit_bytes.saturating_sub(self.allocated_bytes);
        let new = wanted.min(left / slot_bytes * slot_bytes);
        if new == wanted {
            return Some(BufferChoice::New(new));
        }
        let largest = idle().max_by_key(|(_, buffer)| buffer.bytes);
        match largest {
            Some((index, buffer)) if buffer.bytes >= new.max(slot_bytes) => {
                Some(BufferChoice::Idle(index))
            }
            _ => (new > 0).then_some(BufferChoice::New(new)),
        }
    }

    /// Makes a buffer. `None`: there is no memory, and no more of it is asked for again.
    fn allocate(
        &mut self,
        bytes: u64,
        request: StagingRequest<'_>,
        registrations: &mut Registrations,
    ) -> Option<usize> {
        // At most 16 slots of 4 MiB.
        let owned = match request.device.allocate(bytes as usize, request.memory) {
            Ok(owned) => owned,
            Err(error) => {
                self.warn_once(&error);
                self.limit_bytes = self.allocated_bytes;
                return None;
            }
        };
        let (address, memory) = (owned.address(), request.memory);
        let registration = registrations.add_own(bytes, memory, owned);
        self.allocated_bytes += bytes;
        self.buffers.push(StagingBuffer { registration, address, bytes, memory, is_used: false });
        Some(self.buffers.len() - 1)
    }

    /// Says once why some channels go without.
    pub(crate) fn warn_once(&mut self, reason: impl Display) {
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                %reason, limit_bytes = self.limit_bytes, allocated_bytes = self.allocated_bytes,
                "no staging buffer for a channel: its scattered small sends are sent one by one"
            );
        }
    }

    /// Gives a lane's buffer back for others. The comm that it was registered with has closed, and
    /// nothing touches the memory.
    pub(crate) fn give_back(&mut self, registration: RegistrationKey) {
        let is_it =
            |buffer: &&mut StagingBuffer| buffer.registration == registration && buffer.is_used;
        if let Some(buffer) = self.buffers.iter_mut().find(is_it) {
            buffer.is_used = false;
            self.used_bytes -= buffer.bytes;
        }
    }
}

/// As many slots as a lane may have gathered chunks under way, taken in turn: chunks leave in the
/// order in which they were gathered, so the slot whose turn it is has been sent.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Registration of the session's own memory; goes back to the
    /// [`StagingPool`](super::staging_pool::StagingPool).
    pub(crate) registration: RegistrationKey,
    address: u64,
    memory: MemoryType,
    slot_bytes: u64,
    slots: u64,
    taken: u64,
}

impl Staging {
    /// Makes `slots` slots from `address` on, at least one.
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

    /// Returns the first slot, for registering all of them with a comm.
    pub(crate) fn first_slot(&self) -> Span {
        self.slot(0)
    }

    /// Returns the slot for the next chunk. The caller has no more than `slots` chunks under way,
    /// this one included, and they leave in order.
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
    use tcpx_protocol::types::Access;
    use tcpx_protocol::types::memory::MemoryId;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A pool with its registrations, over emulated device memory.
    struct TestPool {
        pool: StagingPool,
        registrations: Registrations,
    }

    impl TestPool {
        fn new(limit_bytes: u64) -> Self {
            let registrations = Registrations::default();
            Self { pool: StagingPool::new(limit_bytes), registrations }
        }

        fn take(&mut self, slots: usize, chunk_bytes: u64) -> Option<Staging> {
            self.take_of(MemoryType::Device, slots, chunk_bytes)
        }

        fn take_of(
            &mut self,
            memory: MemoryType,
            slots: usize,
            chunk_bytes: u64,
        ) -> Option<Staging> {
            let chunk_bytes = chunk_bytes as u32;
            let device = &DeviceMemory::Emulated;
            let request = StagingRequest { memory, slots, chunk_bytes, device };
            self.pool.take(request, &mut self.registrations)
        }

        fn bytes(&self) -> [u64; 2] {
            [self.pool.used_bytes, self.pool.allocated_bytes]
        }
    }

    #[test]
    fn slots_are_whole_pages_that_can_be_written() {
        let mut pool = TestPool::new(MIB);
        let mut staging = pool.take(3, 5000).expect("there is room");
        let starts = [(); 3].map(|()| staging.next_slot().address);
        assert_eq!([starts[1] - starts[0], starts[2] - starts[1]], [8192; 2]);
        assert_eq!(starts[0] % PAGE_BYTES, 0);
        // SAFETY: the last byte of the last slot; nothing else knows of this memory.
        unsafe { DeviceMemory::Emulated.write(starts[2] + 8191, &[7]) }.expect("it is there");
    }

    #[test]
    fn callers_ids_do_not_show_it() {
        let mut pool = TestPool::new(MIB);
        let staging = pool.take(1, 4096).expect("there is room");
        let registrations = &mut pool.registrations;
        assert_eq!(registrations.id_of(staging.registration), None);
        assert!(registrations.info(MemoryId::after(0)).is_err());
        let id = registrations.add(4096, 1, MemoryType::Host, Access::ReadOnly, None).unwrap();
        assert_eq!(id, MemoryId::after(0));
    }

    #[test]
    fn lanes_take_up_to_the_limit_and_the_last_one_takes_what_is_left() {
        let mut pool = TestPool::new(11 * MIB);
        let slots: Vec<_> =
            (0..4).map(|_| pool.take(4, MIB).map(|staging| staging.slots())).collect();
        assert_eq!(slots, [Some(4), Some(4), Some(3), None]);
        assert_eq!(pool.bytes(), [11 * MIB; 2]);
        // A smaller chunk does not fit either: nothing is left at all.
        assert!(pool.take(1, 4096).is_none());
    }

    #[test]
    fn what_is_given_back_is_used_again_and_stays_allocated() {
        let mut pool = TestPool::new(8 * MIB);
        let first = pool.take(4, MIB).expect("there is room");
        let other = pool.take(4, MIB).expect("there is room");
        assert!(pool.take(4, MIB).is_none());
        pool.pool.give_back(first.registration);
        assert_eq!(pool.bytes(), [4 * MIB, 8 * MIB]);
        // Once more changes nothing.
        pool.pool.give_back(first.registration);
        assert_eq!(pool.bytes(), [4 * MIB, 8 * MIB]);
        let mut again = pool.take(4, MIB).expect("it was given back");
        assert_eq!(again.registration, first.registration);
        assert_eq!(again.next_slot(), first.first_slot(), "from its first slot on");
        pool.pool.give_back(other.registration);
        pool.pool.give_back(again.registration);
        for _ in 0..1000 {
            let staging = pool.take(4, MIB).expect("two are idle");
            pool.pool.give_back(staging.registration);
        }
        assert_eq!(pool.bytes(), [0, 8 * MIB]);
    }

    #[test]
    fn small_slots_take_a_large_buffer_only_when_there_is_no_other_room() {
        let mut pool = TestPool::new(4 * MIB + 8192);
        let large = pool.take(4, MIB).expect("there is room").registration;
        pool.pool.give_back(large);
        let small = pool.take(2, 4096).expect("there is room");
        assert_ne!(small.registration, large);
        assert_eq!(pool.bytes(), [8192, 4 * MIB + 8192]);
        let next = pool.take(2, 4096).expect("the large one is idle");
        assert_eq!((next.registration, next.slots()), (large, 2));
        // And larger slots than the idle buffer was made for, as many as fit.
        pool.pool.give_back(large);
        let wide = pool.take(4, 2 * MIB).expect("two fit");
        assert_eq!((wide.registration, wide.slots()), (large, 2));
    }

    #[test]
    fn kinds_of_memory_share_the_limit_and_not_the_buffers() {
        let mut pool = TestPool::new(2 * MIB);
        let host = pool.take_of(MemoryType::Host, 1, MIB).expect("there is room");
        pool.pool.give_back(host.registration);
        let device = pool.take_of(MemoryType::Device, 1, MIB).expect("there is room");
        assert_ne!(device.registration, host.registration);
        assert!(pool.take_of(MemoryType::Device, 1, MIB).is_none(), "the idle one is the host's");
        assert!(pool.take_of(MemoryType::Host, 1, MIB).is_some());
    }

    #[test]
    fn without_a_limit_there_is_nothing() {
        assert!(TestPool::new(0).take(1, 4096).is_none());
        assert!(TestPool::new(4095).take(1, 4096).is_none());
        assert_eq!(TestPool::new(4096).take(9, 4096).map(|staging| staging.slots()), Some(1));
    }

    #[test]
    fn slots_come_in_turn() {
        let key = RegistrationKey::default();
        let mut staging = Staging::new(key, 4096, MemoryType::Device, 8192, 3);
        let starts: Vec<u64> = (0..4).map(|_| staging.next_slot().address).collect();
        assert_eq!(starts, [4096, 12_288, 20_480, 4096], "three slots");
        assert_eq!(staging.first_slot().address, 4096);
    }
}
