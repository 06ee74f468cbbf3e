#![allow(unsafe_code)]
//! No allocation per chunk: a transfer of many chunks allocates as much as one of few.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tcpx_core::MemoryType;
use tcpx_tests::null::NullPair;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn chunks_allocate_nothing() {
    for memory in [MemoryType::Device, MemoryType::Host] {
        let pair = NullPair::new(20_000, memory);
        // Tables grow to their size once.
        pair.transfer(20_000);
        let allocations_of = |chunks| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            pair.transfer(chunks);
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        let (few, many) = (allocations_of(10), allocations_of(20_000));
        assert!(many <= few, "{many} allocations for 20000 chunks, {few} for 10");
    }
}
