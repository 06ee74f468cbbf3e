#![allow(unsafe_code)]
//! No allocation per chunk: a transfer of many chunks allocates as much as one of few, and an
//! operation that is posted again nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tcpx_core::{MemoryType, OperationKind};
use tcpx_testkit::in_own_process;
use tcpx_tests::null::NullPair;

struct CountingAllocator;

/// Allocations so far, by the number of bits of their size.
static ALLOCATIONS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

fn count(bytes: usize) {
    ALLOCATIONS[bytes.checked_ilog2().unwrap_or(0) as usize].fetch_add(1, Ordering::Relaxed);
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A session looks at itself about once a second, and says a ping now and then; on a slow machine a
/// run lasts seconds. What is allocated for each chunk is far more than this.
const NOW_AND_THEN: u64 = 50;

/// Runs of [`least_allocations`]. Each of both sessions reads files about its NICs once in a GiB,
/// at a moment that time decides, and allocates about 25 times. So one run has no such reading.
const RUNS: usize = 3;

/// What a run allocated: how often, and how often of each size, up to twice the number it begins
/// with.
fn allocations(run: impl FnOnce()) -> (u64, String) {
    let now = || ALLOCATIONS.each_ref().map(|count| count.load(Ordering::Relaxed));
    let before = now();
    run();
    let counts = now().into_iter().zip(before).map(|(now, before)| now - before);
    let sizes = counts.clone().enumerate().filter(|(_, count)| *count > 0);
    let sizes: Vec<_> = sizes.map(|(bits, count)| format!("{count} of {}", 1u64 << bits)).collect();
    (counts.sum::<usize>() as u64, sizes.join(", "))
}

/// What the run of [`RUNS`] that allocated least allocated.
fn least_allocations(run: impl Fn()) -> (u64, String) {
    (0..RUNS).map(|_| allocations(&run)).min().expect("there are runs")
}

fn chunks_allocate_nothing(memory: MemoryType, chunks: u64) {
    let pair = NullPair::new(chunks, memory);
    // Tables grow to their size once.
    pair.transfer(chunks);
    let [(few, _), (many, sizes)] =
        [10, chunks].map(|chunks| least_allocations(|| pair.transfer(chunks)));
    assert!(
        many <= few + NOW_AND_THEN,
        "{many} allocations for {chunks} chunks, {few} for 10: {sizes}"
    );
}

/// Messages that share a chunk allocate twice for all of them: the list of their names, in the
/// match at either end. Their own list is used again. The number of chunks that are in flight at
/// once depends on the scheduling of the threads, so a run may need more lists than those before
/// it. A batch is short enough for what it took to be kept for the next.
fn gathering_allocates_nothing(memory: MemoryType) {
    const BATCHES: u64 = 6;
    const MESSAGES: u64 = 3_500;
    let pair = NullPair::for_messages(MESSAGES, memory);
    let run = |messages| {
        let before = pair.sent();
        let (count, sizes) =
            allocations(|| (0..BATCHES).for_each(|_| pair.scattered_batch(messages)));
        let after = pair.sent();
        assert!(after.gathered > before.gathered, "{memory} memory");
        (count, after.posts - before.posts, sizes)
    };
    run(MESSAGES);
    let (few, few_chunks, _) = run(MESSAGES / 10);
    let compare = || {
        let (many, chunks, sizes) = run(MESSAGES);
        let more = chunks.saturating_sub(few_chunks);
        assert!(more > 2 * NOW_AND_THEN, "{chunks} chunks, {few_chunks}");
        let words =
            format!("{many} allocations for {chunks} chunks, {few} for {few_chunks}: {sizes}");
        (many <= few + 2 * more + NOW_AND_THEN, more, words)
    };
    // A run that fails has made more lists than those made now and then, all of them kept. Each
    // chunk has no more than one at either end.
    let mut bad = Vec::new();
    while let (false, chunks, words) = compare() {
        bad.push(words);
        assert!(bad.len() as u64 <= 2 * chunks / NOW_AND_THEN, "{bad:#?}");
    }
}

/// Whatever its list and its bytes, a post that is not the first allocates nothing at either end.
fn posting_again_allocates_nothing(memory: MemoryType, often: u64) {
    let pair = NullPair::for_messages(1_000, memory);
    for kind in [OperationKind::Write, OperationKind::Read] {
        for (pairs, each) in [(1, 64), (1, 4_096), (10, 100), (1, 1 << 20), (1_000, 4_096)] {
            let operation = pair.operation(kind, pairs, each);
            let posts = |count| (0..count).for_each(|_| pair.move_operation(&operation));
            posts(20);
            let (count, sizes) = least_allocations(|| posts(often));
            let words = format!("{kind:?} of {pairs} times {each} bytes of {memory} memory");
            assert!(count <= NOW_AND_THEN, "{count} for {often} posts: {words}: {sizes}");
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
