//! Reads and writes of exported memory where one or both ends have a GPU, both in this process on
//! GPU 0. Without a GPU each test says that it is skipped; `TCPX_TEST_REQUIRE=gpu` makes that a
//! failure.

use std::thread;
use std::time::Instant;

use serial_test::serial;
use tcpx_core::{
    Error, ExportOptions, MemoryId, MemoryRange, MemoryType, OperationKind, RemoteAccess,
    RemoteRange, Session, UnpackChoice,
};
use tcpx_testkit::{PATIENCE, in_own_process, pattern};
use tcpx_tests::has_gpu;
use tcpx_tests::sessions::{connect, drop_all};

use crate::gpu_sessions::session;

/// Ranges of one end: offset and bytes.
type Ranges = Vec<(u64, u64)>;

/// One range, at an odd place.
fn whole(bytes: u64) -> [Ranges; 2] {
    [vec![(3, bytes)], vec![(5, bytes)]]
}

/// Ranges apart, backwards at the other end. Their lengths are no multiples of anything.
fn scattered(count: u64) -> [Ranges; 2] {
    let bytes = |index: u64| 4096 - index % 3;
    let here = (0..count).map(|index| (1 + 5000 * index, bytes(index))).collect();
    let there = (0..count).map(|index| (7 + 5000 * (count - 1 - index), bytes(index))).collect();
    [here, there]
}

/// Memory of a pattern.
fn memory(session: &Session, kind: MemoryType, bytes: usize, seed: u64) -> (MemoryId, Vec<u8>) {
    let memory = session.allocate(bytes as u64, kind).expect("memory");
    let mut content = vec![0; bytes];
    pattern::fill(seed, 0, &mut content);
    session.write_memory(memory, 0, &content).expect("nothing uses it");
    (memory, content)
}

/// Returns the content of memory, once this end knows that no operation uses it. A read is done at
/// the other end when all bytes have arrived there, which this end learns later.
fn contents(session: &Session, memory: MemoryId, bytes: usize) -> Vec<u8> {
    let mut contents = vec![0; bytes];
    let give_up_at = Instant::now() + PATIENCE;
    while let Err(error) = session.read_memory(memory, 0, &mut contents) {
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(Instant::now() < give_up_at, "{error}");
        session.progress();
        thread::yield_now();
    }
    contents
}

/// `from` as it is after these ranges of it were overwritten by those of `by`.
fn overwritten(from: &[u8], ranges: &Ranges, by: &[u8], their_ranges: &Ranges) -> Vec<u8> {
    let mut all = from.to_vec();
    for ((to, bytes), (at, _)) in ranges.iter().zip(their_ranges) {
        let [to, at, bytes] = [*to, *at, *bytes].map(|number| number as usize);
        all[to..to + bytes].copy_from_slice(&by[at..at + bytes]);
    }
    all
}

/// Writes, reads back what has changed meanwhile, and verifies every byte of both memories.
fn there_and_back(
    [left, right]: [&Session; 2],
    kinds: [MemoryType; 2],
    [here, there]: [Ranges; 2],
) {
    let reach = |ranges: &Ranges| ranges.iter().map(|(at, bytes)| at + bytes).max().expect("some");
    let bytes = 100 + reach(&here).max(reach(&there)) as usize;
    let what = format!("{kinds:?}, {} ranges, {bytes} bytes", here.len());
    let (own, ours) = memory(left, kinds[0], bytes, 1);
    let (exported, theirs) = memory(right, kinds[1], bytes, 2);
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(exported, options).expect("it is registered");
    let local = here.iter().map(|&(offset, bytes)| MemoryRange { memory: own, offset, bytes });
    let remote = there.iter().map(|&(offset, bytes)| RemoteRange { key: &key, offset, bytes });
    let (local, remote) = (local.collect::<Vec<_>>(), remote.collect::<Vec<_>>());
    let run = |kind| {
        let operation = left.prepare("right", kind, &local, &remote).expect("they fit");
        operation.post(Some(b"done")).expect("it is not under way");
        let mut notes = Vec::new();
        thread::scope(|scope| {
            // Nothing else lets the other end make progress.
            let notified = scope.spawn(|| right.wait_notifications(&mut notes, 1, Some(PATIENCE)));
            operation
                .wait(Some(PATIENCE))
                .unwrap_or_else(|error| panic!("{what}: {kind}: {error}"));
            // The notification of a read goes now.
            while !notified.is_finished() {
                left.progress();
                thread::yield_now();
            }
            notified.join().expect("no panic").expect("one comes");
        });
        assert_eq!(notes[0].bytes, b"done");
    };
    run(OperationKind::Write);
    let written = overwritten(&theirs, &there, &ours, &here);
    assert!(contents(right, exported, bytes) == written, "{what}: written");
    assert!(contents(left, own, bytes) == ours, "{what}: written from");
    right.write_memory(exported, 0, &theirs).expect("nothing uses it");
    run(OperationKind::Read);
    let read = overwritten(&ours, &here, &theirs, &there);
    assert!(contents(left, own, bytes) == read, "{what}: read");
    assert!(contents(right, exported, bytes) == theirs, "{what}: read from");
    right.unexport(&key).expect("nothing uses it");
    left.deregister_memory(own).expect("nothing uses it");
    right.deregister_memory(exported).expect("nothing uses it");
}

#[test]
#[serial(gpu)]
fn memory_of_either_kind_is_written_and_read_with_every_unpack_backend() {
    in_own_process!();
    use MemoryType::{Device, Host};
    if !has_gpu() {
        return;
    }
    for unpack in [UnpackChoice::Host, UnpackChoice::D2d, UnpackChoice::Kernel] {
        let (left, right) = (session(Some(0), unpack), session(Some(0), unpack));
        connect(&left, &right);
        for kinds in [[Host, Host], [Host, Device], [Device, Host], [Device, Device]] {
            for ranges in [whole(1), whole(16_000), whole(70_001), whole(3_000_001), scattered(300)]
            {
                there_and_back([&left, &right], kinds, ranges);
            }
        }
        drop_all([left, right]);
    }
}

#[test]
#[serial(gpu)]
fn a_peer_without_a_gpu_reaches_the_memory_of_one() {
    in_own_process!();
    use MemoryType::{Device, Host};
    if !has_gpu() {
        return;
    }
    let (left, right) = (session(None, UnpackChoice::Auto), session(Some(0), UnpackChoice::Auto));
    connect(&left, &right);
    for kind in [Host, Device] {
        for ranges in [whole(100), whole(60_000), whole(2_000_001), scattered(100)] {
            there_and_back([&left, &right], [Host, kind], ranges);
        }
    }
    drop_all([left, right]);
}
