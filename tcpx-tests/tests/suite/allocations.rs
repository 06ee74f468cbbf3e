#![allow(unsafe_code)]
//! No allocation per chunk: a transfer of many chunks allocates as much as one of few, and an
//! operation that is posted again nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tcpx_core::{MemoryType, OperationKind};
use tcpx_testkit::in_own_process;
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

/// A session looks at itself about once a second, and says a ping now and then; on a slow machine a
/// run lasts seconds. What is allocated for each chunk is far more than this.
const NOW_AND_THEN: u64 = 50;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run();
    (ALLOCATIONS.load(Ordering::Relaxed) - before) as u64
}

fn chunks_allocate_nothing(memory: MemoryType, chunks: u64) {
    let pair = NullPair::new(chunks, memory);
    // Tables grow to their size once.
    pair.transfer(chunks);
    let [few, many] = [10, chunks].map(|chunks| allocations(|| pair.transfer(chunks)));
    assert!(many <= few + NOW_AND_THEN, "{many} allocations for {chunks} chunks, {few} for 10");
}

/// Messages that share a chunk allocate twice for all of them: the list of their names, in the
/// match at either end.
fn gathering_allocates_nothing(memory: MemoryType) {
    let pair = NullPair::for_messages(20_000, memory);
    pair.scattered_batch(20_000);
    let few = allocations(|| pair.scattered_batch(2));
    let before = pair.sent();
    let many = allocations(|| pair.scattered_batch(20_000));
    let after = pair.sent();
    assert!(after.gathered > before.gathered, "{memory} memory");
    let chunks = after.posts - before.posts;
    assert!(chunks > 2 * NOW_AND_THEN, "{chunks} chunks");
    assert!(
        many <= few + 2 * chunks + NOW_AND_THEN,
        "{many} allocations for {chunks} chunks, {few} for one"
    );
}

/// Whatever its list and its bytes, a post that is not the first allocates nothing at either end.
fn posting_again_allocates_nothing(memory: MemoryType, often: u64) {
    let pair = NullPair::for_messages(1_000, memory);
    for kind in [OperationKind::Write, OperationKind::Read] {
        for (pairs, each) in [(1, 64), (1, 4_096), (10, 100), (1, 1 << 20), (1_000, 4_096)] {
            let operation = pair.operation(kind, pairs, each);
            let posts = |count| (0..count).for_each(|_| pair.move_operation(&operation));
            posts(20);
            let allocations = allocations(|| posts(often));
            let words = format!("{kind:?} of {pairs} times {each} bytes of {memory} memory");
            assert!(allocations <= NOW_AND_THEN, "{allocations} for {often} posts: {words}");
        }
    }
}

// They count what the whole process allocates.
#[test]
fn no_chunk_allocates() {
    in_own_process!();
    for memory in [MemoryType::Device, MemoryType::Host] {
        chunks_allocate_nothing(memory, 3_000);
        posting_again_allocates_nothing(memory, 2 * NOW_AND_THEN);
    }
    gathering_allocates_nothing(MemoryType::Device);
}

#[test]
#[ignore = "deep: many more chunks"]
fn no_chunk_of_many_allocates() {
    in_own_process!();
    for memory in [MemoryType::Device, MemoryType::Host] {
        chunks_allocate_nothing(memory, 20_000);
        gathering_allocates_nothing(memory);
        posting_again_allocates_nothing(memory, 200);
    }
}
