//! Opaque ids for what the caller holds: comms, registrations, connect attempts, requests.
//!
//! A value handed out as `void*` is index and generation, never an address. It is not a canonical
//! address either, so a consumer that peeks behind it faults at once instead of reading something.
//! A stale, closed twice or foreign value fails the generation check and is an error of the
//! caller's, never a crash.
//!
//! A lookup is two loads and one uncontended lock. The lock also keeps two threads out of one
//! object: callers must serialise the calls on a comm (docs/plugin-contract.md). A busy object is
//! reported instead of waited for. Only regMr may overlap with others: it asks for the object's tag
//! alone.

use core::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

use crate::comm::NUMBER_BITS;
use crate::sync::{AtomicU32, Mutex, MutexGuard, OnceLock};

/// Slots that are allocated at once.
const SEGMENT_SLOTS: usize = 256;

/// Top byte of every id. On x86-64 and AArch64 it makes the value a non-canonical address.
const MARK: u64 = 0x5c << 56;
const MARK_MASK: u64 = 0xff << 56;

/// The part of a request's number that its id carries.
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum IdKind {
    Comm = 1,
    Registration = 2,
    Connect = 3,
    Request = 4,
}

impl IdKind {
    const fn bits(self) -> u64 {
        (self as u64) << 52
    }

    const MASK: u64 = 0xf << 52;
}

/// Index and generation in one registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    /// 0..2^20.
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Id {
    /// The word that the caller gets.
    pub(crate) fn word(self, kind: IdKind) -> u64 {
        MARK | kind.bits() | u64::from(self.generation) << 20 | u64::from(self.index)
    }

    /// The id behind a word of this kind, or `None` if it cannot have come from [`Id::word`].
    pub(crate) fn from_word(word: u64, kind: IdKind) -> Option<Self> {
        (word & (MARK_MASK | IdKind::MASK) == MARK | kind.bits()).then_some(Self {
            index: (word & 0xf_ffff) as u32,
            generation: (word >> 20 & 0xffff_ffff) as u32,
        })
    }

    pub(crate) fn pointer(self, kind: IdKind) -> *mut c_void {
        core::ptr::without_provenance_mut(self.word(kind) as usize)
    }

    pub(crate) fn from_pointer(pointer: *mut c_void, kind: IdKind) -> Option<Self> {
        Self::from_word(pointer.addr() as u64, kind)
    }
}

/// A request of a comm: the comm's slot, and which of the comm's requests. Numbers are cut to fit
/// one word, and compared as cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    comm_index: u16,
    comm_generation: u16,
    /// Low bits of the request's number, which the pointer holds.
    pub(crate) number: u32,
}

impl RequestId {
    pub(crate) fn new(comm: Id, number: u64) -> Self {
        Self {
            comm_index: comm.index as u16,
            comm_generation: comm.generation as u16,
            number: (number & NUMBER_MASK) as u32,
        }
    }

    pub(crate) fn pointer(self) -> *mut c_void {
        let word = MARK
            | IdKind::Request.bits()
            | u64::from(self.number) << 32
            | u64::from(self.comm_generation) << 16
            | u64::from(self.comm_index);
        core::ptr::without_provenance_mut(word as usize)
    }

    pub(crate) fn from_pointer(pointer: *mut c_void) -> Option<Self> {
        let word = pointer.addr() as u64;
        if word & (MARK_MASK | IdKind::MASK) != MARK | IdKind::Request.bits() {
            return None;
        }
        let (low, middle, high) = (word & 0xffff, word >> 16 & 0xffff, word >> 32 & NUMBER_MASK);
        Some(Self { comm_index: low as u16, comm_generation: middle as u16, number: high as u32 })
    }

    /// Returns whether this is a request of the comm `id`.
    pub(crate) fn belongs_to(self, id: Id) -> bool {
        self.comm_index == id.index as u16 && self.comm_generation == id.generation as u16
    }
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// Nothing has this id, or nothing has it any more.
    Stale,
    /// Another thread is using the object right now.
    Busy,
    /// An earlier call panicked in the middle of a change.
    Broken,
}

struct Slot<T> {
    generation: AtomicU32,
    /// What kind of object it is, for those that only ask that.
    tag: AtomicU32,
    object: Mutex<Option<T>>,
}

#[derive(Debug, Default)]
struct Indices {
    free: Vec<u32>,
    used: u32,
}

/// Objects of one kind by [`Id`]; at most `SEGMENTS` × 256.
pub(crate) struct Registry<T, const SEGMENTS: usize> {
    segments: [OnceLock<Box<[Slot<T>]>>; SEGMENTS],
    indices: Mutex<Indices>,
}

impl<T, const SEGMENTS: usize> Registry<T, SEGMENTS> {
    pub(crate) const fn new() -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            indices: Mutex::new(Indices { free: Vec::new(), used: 0 }),
        }
    }

    /// `None` when the registry is full.
    pub(crate) fn insert(&self, object: T) -> Option<Id> {
        self.insert_with(|_| object)
    }

    /// Like [`Self::insert`], for an object that needs to know its id.
    pub(crate) fn insert_with(&self, make: impl FnOnce(Id) -> T) -> Option<Id> {
        self.insert_tagged(0, make)
    }

    /// The same, with a word that [`Self::tag`] gives back.
    pub(crate) fn insert_tagged(&self, tag: u32, make: impl FnOnce(Id) -> T) -> Option<Id> {
        let index = {
            let mut indices = self.indices.lock().unwrap_or_else(PoisonError::into_inner);
            match indices.free.pop() {
                Some(index) => index,
                None if (indices.used as usize) < SEGMENTS * SEGMENT_SLOTS => {
                    indices.used += 1;
                    indices.used - 1
                }
                None => return None,
            }
        };
        let slot = self.slot_or_create(index);
        let mut object = slot.object.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Id { index, generation: slot.generation.load(Ordering::Relaxed) };
        *object = Some(make(id));
        slot.tag.store(tag, Ordering::Release);
        Some(id)
    }

    /// The word that the object was inserted with, also while another thread uses the object.
    pub(crate) fn tag(&self, id: Id) -> Result<u32, LookupError> {
        let slot = self.slot(id.index).ok_or(LookupError::Stale)?;
        let tag = slot.tag.load(Ordering::Acquire);
        // After the tag: a later object has another generation.
        match slot.generation.load(Ordering::Acquire) == id.generation {
            true => Ok(tag),
            false => Err(LookupError::Stale),
        }
    }

    /// Runs `body` on the object, or says why not. Never waits.
    pub(crate) fn with<R>(&self, id: Id, body: impl FnOnce(&mut T) -> R) -> Result<R, LookupError> {
        let slot = self.slot(id.index).ok_or(LookupError::Stale)?;
        if slot.generation.load(Ordering::Acquire) != id.generation {
            return Err(LookupError::Stale);
        }
        let mut object = try_lock(slot)?;
        if slot.generation.load(Ordering::Relaxed) != id.generation {
            return Err(LookupError::Stale);
        }
        object.as_mut().map(body).ok_or(LookupError::Stale)
    }

    /// The id of the live object that owns a request, without touching the object.
    pub(crate) fn owner(&self, request: RequestId) -> Option<Id> {
        let index = u32::from(request.comm_index);
        let generation = self.slot(index)?.generation.load(Ordering::Acquire);
        let id = Id { index, generation };
        request.belongs_to(id).then_some(id)
    }

    /// Takes the object out, waiting for a call that is using it. The id is stale from here on.
    pub(crate) fn remove_if(
        &self,
        id: Id,
        wanted: impl FnOnce(&T) -> bool,
    ) -> Result<T, LookupError> {
        let slot = self.slot(id.index).ok_or(LookupError::Stale)?;
        let mut object = slot.object.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.generation.load(Ordering::Relaxed) != id.generation {
            return Err(LookupError::Stale);
        }
        let taken = match object.as_ref() {
            None => return Err(LookupError::Stale),
            Some(present) if !wanted(present) => return Err(LookupError::Busy),
            Some(_) => object.take().ok_or(LookupError::Stale)?,
        };
        slot.generation.store(id.generation.wrapping_add(1), Ordering::Release);
        slot.object.clear_poison();
        drop(object);
        self.indices.lock().unwrap_or_else(PoisonError::into_inner).free.push(id.index);
        Ok(taken)
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let index = index as usize;
        self.segments.get(index / SEGMENT_SLOTS)?.get()?.get(index % SEGMENT_SLOTS)
    }

    /// `index` was counted out of the registry's capacity, so its segment exists or can.
    fn slot_or_create(&self, index: u32) -> &Slot<T> {
        let index = index as usize;
        let segment = self.segments[index / SEGMENT_SLOTS].get_or_init(|| {
            let empty = || Slot {
                generation: AtomicU32::new(1),
                tag: AtomicU32::new(0),
                object: Mutex::new(None),
            };
            std::iter::repeat_with(empty).take(SEGMENT_SLOTS).collect()
        });
        &segment[index % SEGMENT_SLOTS]
    }
}

fn try_lock<T>(slot: &Slot<T>) -> Result<MutexGuard<'_, Option<T>>, LookupError> {
    slot.object.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => LookupError::Busy,
        TryLockError::Poisoned(_) => LookupError::Broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type SmallRegistry = Registry<u32, 1>;

    #[test]
    fn a_removed_id_is_stale_even_when_its_slot_is_reused() {
        let registry = SmallRegistry::new();
        let first = registry.insert(7).expect("room");
        assert_eq!(registry.with(first, |value| *value), Ok(7));
        assert_eq!(registry.remove_if(first, |_| true), Ok(7));
        let second = registry.insert(8).expect("room");
        assert_eq!(second.index, first.index);
        assert_eq!(registry.with(first, |value| *value), Err(LookupError::Stale));
        assert_eq!(registry.remove_if(first, |_| true), Err(LookupError::Stale));
        assert_eq!(registry.with(second, |value| *value), Ok(8));
    }

    #[test]
    fn a_refused_removal_leaves_the_object() {
        let registry = SmallRegistry::new();
        let id = registry.insert(7).expect("room");
        assert_eq!(registry.remove_if(id, |_| false), Err(LookupError::Busy));
        assert_eq!(registry.with(id, |value| *value), Ok(7));
    }

    #[test]
    fn an_object_in_use_is_busy() {
        let registry = SmallRegistry::new();
        let id = registry.insert(7).expect("room");
        let nested = registry.with(id, |_| registry.with(id, |value| *value));
        assert_eq!(nested, Ok(Err(LookupError::Busy)));
    }

    #[test]
    fn a_tag_is_read_while_its_object_is_in_use_and_not_after_its_end() {
        let registry = SmallRegistry::new();
        let id = registry.insert_tagged(5, |_| 7).expect("room");
        assert_eq!(registry.with(id, |_| registry.tag(id)), Ok(Ok(5)));
        assert!(registry.remove_if(id, |_| true).is_ok());
        assert_eq!(registry.tag(id), Err(LookupError::Stale));
        let next = registry.insert(8).expect("room");
        assert_eq!((registry.tag(next), registry.tag(id)), (Ok(0), Err(LookupError::Stale)));
    }

    #[test]
    fn capacity_is_bounded_and_comes_back() {
        let registry = SmallRegistry::new();
        let ids: Vec<_> =
            (0..SEGMENT_SLOTS as u32).map(|n| registry.insert(n).expect("room")).collect();
        assert_eq!(registry.insert(0), None);
        assert!(registry.remove_if(ids[9], |_| true).is_ok());
        assert!(registry.insert(0).is_some());
    }

    #[test]
    fn foreign_pointers_are_no_ids() {
        let id = Id { index: 5, generation: 9 };
        assert_eq!(Id::from_pointer(id.pointer(IdKind::Comm), IdKind::Comm), Some(id));
        assert_eq!(Id::from_pointer(id.pointer(IdKind::Comm), IdKind::Registration), None);
        let mut local = 0u8;
        assert_eq!(Id::from_pointer((&raw mut local).cast(), IdKind::Comm), None);
        assert_eq!(Id::from_pointer(core::ptr::null_mut(), IdKind::Comm), None);
        let comm = id.pointer(IdKind::Comm);
        assert_eq!(RequestId::from_pointer(comm), None);
    }

    #[test]
    fn a_request_knows_its_comm() {
        let registry = SmallRegistry::new();
        let comm = registry.insert(1).expect("room");
        let request = RequestId::new(comm, 0x12_3456_789a);
        let pointer = request.pointer();
        assert_eq!(RequestId::from_pointer(pointer), Some(request));
        assert!(request.belongs_to(comm));
        assert_eq!(registry.owner(request), Some(comm));
        assert!(registry.remove_if(comm, |_| true).is_ok());
        assert_eq!(registry.owner(request), None);
    }
}
