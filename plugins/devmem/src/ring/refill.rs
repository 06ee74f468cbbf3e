#![allow(unsafe_code)]
//! Ring by which pages go back to the NIC. The kernel takes them as it needs them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::layout::{COPIED_BYTES_AT, COUNTERS_BYTES, RefillEntry, RefillOffsets};
use super::refill_index::RefillIndex;
use crate::host_memory::HostMemory;

/// Bytes before the entries: more than the kernel's header of the ring takes.
const HEADER_BYTES: usize = 4096;
/// Largest number of entries that the kernel takes.
const MOST_ENTRIES: u32 = 32_768;
const PAGE_BYTES: u64 = 4096;

/// Pages of an area on their way back to the kernel. Any thread gives pages back.
#[derive(Debug)]
pub struct Refill {
    memory: HostMemory,
    entries: u32,
    offsets: RefillOffsets,
    /// Whether the kernel counts the bytes that it copies.
    counts: bool,
    state: Mutex<RefillState>,
}

#[derive(Debug)]
struct RefillState {
    index: RefillIndex,
    /// Pages for which the ring has no room yet.
    waiting: VecDeque<u32>,
}

/// Memory of a ring that is not registered yet.
#[derive(Debug)]
pub(super) struct RefillMemory {
    memory: HostMemory,
    entries: u32,
}

impl RefillMemory {
    /// Allocates the memory for an area of `pages` pages.
    pub(super) fn new(pages: u64) -> io::Result<Self> {
        let entries = u32::try_from(pages).unwrap_or(MOST_ENTRIES).clamp(1, MOST_ENTRIES);
        let entries = entries.next_power_of_two();
        let bytes = counters_at(entries) + COUNTERS_BYTES;
        Ok(Self { memory: HostMemory::new(bytes)?, entries })
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.as_mut_ptr().expose_provenance() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the offset of the kernel's counters, behind the entries.
    pub(super) fn counters_at(&self) -> u64 {
        counters_at(self.entries) as u64
    }

    /// Returns the ring as the kernel has laid it out, or an error when the layout does not fit the
    /// memory. `counts`: whether the kernel counts the bytes that it copies.
    pub(super) fn laid_out(self, offsets: RefillOffsets, counts: bool) -> io::Result<Refill> {
        let RefillOffsets { head, tail, entries: at, .. } = offsets;
        let end = at as usize + self.entries as usize * size_of::<RefillEntry>();
        let is_word = |offset: u32| offset.is_multiple_of(4) && u64::from(offset) + 4 <= at.into();
        let fits = is_word(head) && is_word(tail) && head != tail && at.is_multiple_of(8);
        if !fits || end > counters_at(self.entries) {
            let what = "the kernel has laid the refill ring out of its memory";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let state = RefillState { index: RefillIndex::new(self.entries), waiting: VecDeque::new() };
        let Self { memory, entries } = self;
        Ok(Refill { memory, entries, offsets, counts, state: Mutex::new(state) })
    }
}

fn counters_at(entries: u32) -> usize {
    HEADER_BYTES + entries as usize * size_of::<RefillEntry>()
}

impl Refill {
    /// Gives pages back, by their numbers in the area. A page goes back once for each piece of it
    /// that was received. Pages for which the ring has no room go with a later call.
    pub fn return_pages(&self, pages: impl IntoIterator<Item = u32>) {
        let mut state = self.lock();
        state.waiting.extend(pages);
        self.fill(&mut state);
    }

    /// Gives back the pages that had no room.
    pub fn flush(&self) {
        self.fill(&mut self.lock());
    }

    /// Returns the number of bytes that the kernel has copied into the area because they had come
    /// elsewhere. Returns `None` where the kernel does not count.
    #[must_use]
    pub fn copied_bytes(&self) -> Option<u64> {
        let at = counters_at(self.entries) + COPIED_BYTES_AT;
        let place = self.memory.as_mut_ptr().wrapping_add(at).cast();
        // SAFETY: the counter lies within the memory, which lives as long as `self`. It is aligned,
        // because the memory begins on a page and `at` is a multiple of 8. Only the kernel writes
        // to it.
        let counter = unsafe { AtomicU64::from_ptr(place) };
        self.counts.then(|| counter.load(Ordering::Relaxed))
    }

    fn fill(&self, state: &mut RefillState) {
        if state.waiting.is_empty() {
            return;
        }
        // Entries that the kernel has read may be overwritten.
        let head = self.word(self.offsets.head).load(Ordering::Acquire);
        while !state.waiting.is_empty()
            && let Some(place) = state.index.next(head)
            && let Some(page) = state.waiting.pop_front()
        {
            self.write(place, page);
        }
        self.word(self.offsets.tail).store(state.index.tail(), Ordering::Release);
    }

    fn write(&self, place: usize, page: u32) {
        let offset = u64::from(page) * PAGE_BYTES;
        let entry = RefillEntry { offset, bytes: PAGE_BYTES as u32, padding: 0 };
        let at = self.offsets.entries as usize + place * size_of::<RefillEntry>();
        let target = self.memory.as_mut_ptr().wrapping_add(at).cast::<RefillEntry>();
        // SAFETY: `place` is less than `entries`. All entries lie in the memory, aligned to 8, as
        // `laid_out` has checked. The kernel reads the entry only once the tail is beyond it, and
        // the lock keeps other writers away.
        unsafe { target.write_volatile(entry) };
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        let place = self.memory.as_mut_ptr().wrapping_add(offset as usize).cast();
        // SAFETY: the word lies within the memory, which lives as long as `self`, and is aligned,
        // as `laid_out` has checked. Both ends access the word only as an atomic.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// Locks the state. No step panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, RefillState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSETS: RefillOffsets =
        RefillOffsets { head: 0, tail: 4, entries: 64, reserved: [0; 5] };

    fn refill(pages: u64) -> Refill {
        let memory = RefillMemory::new(pages).expect("memory");
        memory.laid_out(OFFSETS, true).expect("it fits")
    }

    /// Reads and takes entries as the kernel does.
    fn taken(refill: &Refill, count: u32) -> Vec<(u64, u32)> {
        let head = refill.word(OFFSETS.head);
        let tail = refill.word(OFFSETS.tail).load(Ordering::Acquire);
        let from = head.load(Ordering::Relaxed);
        let to = from + count.min(tail - from);
        let entry = |at: u32| {
            let mut bytes = [0; 16];
            let place = (at & (refill.entries - 1)) as usize * 16;
            assert!(refill.memory.read(64 + place, &mut bytes));
            let (offset, rest) = bytes.split_first_chunk().expect("16 bytes");
            (u64::from_ne_bytes(*offset), u32::from_ne_bytes(*rest.first_chunk().expect("8")))
        };
        let all = (from..to).map(entry).collect();
        head.store(to, Ordering::Release);
        all
    }

    #[test]
    fn pages_go_back_in_order_and_wait_for_room() {
        let refill = refill(3);
        refill.return_pages([7, 7, 1, 9, 3]);
        assert_eq!(taken(&refill, 9), [(28672, 4096), (28672, 4096), (4096, 4096), (36864, 4096)]);
        assert_eq!(taken(&refill, 9), []);
        refill.flush();
        assert_eq!(taken(&refill, 9), [(12288, 4096)]);
        refill.return_pages([]);
        assert_eq!(taken(&refill, 9), []);
    }

    #[test]
    fn bytes_that_the_kernel_copies_are_counted() {
        let refill = refill(3);
        assert_eq!(refill.copied_bytes(), Some(0));
        assert!(refill.memory.write(counters_at(4) + 8, &77u64.to_ne_bytes()));
        assert_eq!(refill.copied_bytes(), Some(77));
        let silent = RefillMemory::new(3).expect("memory").laid_out(OFFSETS, false);
        assert_eq!(silent.expect("it fits").copied_bytes(), None);
    }

    #[test]
    fn a_layout_outside_of_the_memory_is_refused() {
        for (head, tail, entries) in [
            (64, 4, 64),
            (0, 64, 64),
            (2, 4, 64),
            (4, 4, 64),
            (0, 4, 68),
            (0, 4, 8192),
            (0, 4, u32::MAX - 7),
        ] {
            let memory = RefillMemory::new(3).expect("memory");
            let offsets = RefillOffsets { head, tail, entries, ..OFFSETS };
            assert!(memory.laid_out(offsets, true).is_err(), "{offsets:?}");
        }
    }
}
