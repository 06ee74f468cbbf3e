//! Reads, writes and notifications in number: many pairs, operations, threads and peers at once,
//! and ends that do other things meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tcpx_core::{
    Error, MemoryId, MemoryRange, MemoryType, Operation, OperationKind, OperationStatus, RemoteKey,
    RemoteProblem, RemoteRange, Session,
};
use tcpx_testkit::{PATIENCE, until};
use tcpx_tests::sessions::{
    contents, drop_all, export, join, lively, memory, notifications, open, pair, soft, some_bytes,
};

const BOTH: [OperationKind; 2] = [OperationKind::Write, OperationKind::Read];

/// Prepares an operation on `bytes` bytes from `offset` on at both ends.
fn prepare(
    session: &Session,
    peer: &str,
    kind: OperationKind,
    memory: MemoryId,
    key: &RemoteKey,
    [offset, bytes]: [u64; 2],
) -> Operation {
    let local = [MemoryRange { memory, offset, bytes }];
    let remote = [RemoteRange { key, offset, bytes }];
    session.prepare(peer, kind, &local, &remote).expect("it fits")
}

fn run(operation: &Operation) {
    operation.post(None).expect("it is not under way");
    operation.wait(Some(PATIENCE)).expect("it succeeds");
}

#[test]
fn ten_thousand_scattered_pairs() {
    scattered_pairs(10_000);
}

#[test]
#[ignore = "deep: ten times as many"]
fn a_hundred_thousand_scattered_pairs() {
    scattered_pairs(100_000);
}

fn scattered_pairs(count: usize) {
    const EACH: usize = 24;
    let [left, right] = pair(lively());
    let total = 2 * count * EACH;
    for kind in [MemoryType::Host, MemoryType::Device] {
        let (ours, theirs) = (some_bytes(1, total), some_bytes(2, total));
        let (here, there) = (memory(&left, kind, &ours), memory(&right, kind, &theirs));
        let key = export(&right, there);
        // Every second place at the one end, permuted at the other.
        let from = |index: usize| 2 * index * EACH;
        let to = |index: usize| 2 * (index * 7_919 % count) * EACH;
        let bytes = EACH as u64;
        let local: Vec<_> = (0..count)
            .map(|index| MemoryRange { memory: here, offset: from(index) as u64, bytes })
            .collect();
        let remote: Vec<_> = (0..count)
            .map(|index| RemoteRange { key: &key, offset: to(index) as u64, bytes })
            .collect();
        let (mut read, mut written) = (ours.clone(), theirs.clone());
        for index in 0..count {
            let (from, to) = (from(index), to(index));
            read[from..from + EACH].copy_from_slice(&theirs[to..to + EACH]);
            written[to..to + EACH].copy_from_slice(&ours[from..from + EACH]);
        }
        let [writes, reads] =
            BOTH.map(|kind| left.prepare("right", kind, &local, &remote).expect("it fits"));
        run(&writes);
        assert!(contents(&right, there, total) == written, "{kind} memory, written");
        right.write_memory(there, 0, &theirs).expect("nothing uses it");
        run(&reads);
        assert!(contents(&left, here, total) == read, "{kind} memory, read");
    }
}

#[test]
fn empty_pairs_move_nothing_and_delay_nothing() {
    let [left, right] = pair(lively());
    let here = memory(&left, MemoryType::Host, b"abcdef");
    let there = memory(&right, MemoryType::Host, b"......");
    let key = export(&right, there);
    let pairs = [(0, 5, 0), (1, 3, 2), (6, 6, 0), (5, 0, 1)];
    let local = pairs.map(|(offset, _, bytes)| MemoryRange { memory: here, offset, bytes });
    let remote = pairs.map(|(_, offset, bytes)| RemoteRange { key: &key, offset, bytes });
    run(&left.prepare("right", OperationKind::Write, &local, &remote).expect("it fits"));
    assert_eq!(contents(&right, there, 6), b"f..bc.");
    // An operation without ranges cannot be prepared.
    let nothing = left.prepare("right", OperationKind::Write, &local[..1], &remote[..1]);
    let problem = nothing.map(drop).expect_err("no pair has a byte");
    assert!(matches!(problem, Error::Remote { problem: RemoteProblem::Nothing, .. }), "{problem}");
    // One byte further there is nothing, not even nothing.
    let past = [RemoteRange { key: &key, offset: 7, bytes: 0 }];
    left.prepare("right", OperationKind::Write, &local[..1], &past).map(drop).expect_err("outside");
}

/// Hundreds of operations of any size under way, both ways.
#[test]
fn many_operations_at_once() {
    const EACH: usize = 70_000;
    const COUNT: usize = 300;
    let ends = pair(lively());
    let seeds = [[1, 2], [3, 4]];
    // What each end writes there, and reads from there.
    let own = [0, 1].map(|end| {
        seeds[end].map(|seed| memory(&ends[end], MemoryType::Host, &some_bytes(seed, EACH * COUNT)))
    });
    let lent = [0, 1].map(|end| {
        let seed = 10 + end as u64;
        [
            memory(&ends[end], MemoryType::Device, &some_bytes(seed, EACH * COUNT)),
            memory(&ends[end], MemoryType::Device, &vec![0; EACH * COUNT]),
        ]
    });
    let keys = [0, 1].map(|end| lent[end].map(|memory| export(&ends[end], memory)));
    let peers = ["right", "left"];
    let mut operations = Vec::new();
    for end in [0, 1] {
        for index in 0..COUNT {
            // From a byte to all of its part.
            let part = [(EACH * index) as u64, 1 + (index * 31_337 % EACH) as u64];
            let [to_read, to_write] = &keys[1 - end];
            let of = |kind, memory, key| prepare(&ends[end], peers[end], kind, memory, key, part);
            operations.push(of(OperationKind::Write, own[end][0], to_write));
            operations.push(of(OperationKind::Read, own[end][1], to_read));
        }
    }
    operations.iter().for_each(|it| it.post(None).expect("it is not under way"));
    operations.iter().for_each(|it| it.wait(Some(PATIENCE)).expect("it succeeds"));
    drop(operations);
    for end in [0, 1] {
        let written = contents(&ends[1 - end], lent[1 - end][1], EACH * COUNT);
        let read = contents(&ends[end], own[end][1], EACH * COUNT);
        let sources =
            [some_bytes(seeds[end][0], EACH * COUNT), some_bytes(11 - end as u64, EACH * COUNT)];
        for index in 0..COUNT {
            let part = EACH * index..EACH * index + 1 + (index * 31_337 % EACH);
            assert!(written[part.clone()] == sources[0][part.clone()], "{index} of {end}, written");
            assert!(read[part.clone()] == sources[1][part], "{index} of {end}, read");
        }
    }
}

#[test]
fn operations_are_posted_by_several_threads() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 40;
    const EACH: u64 = 20_000;
    let [left, right] = pair(lively());
    let bytes = THREADS * EACH as usize;
    let here = memory(&left, MemoryType::Host, &some_bytes(5, bytes));
    let there = memory(&right, MemoryType::Host, &vec![0; bytes]);
    let key = export(&right, there);
    let (posted, shared) = (AtomicUsize::new(0), [0, EACH]);
    let all = prepare(&left, "right", OperationKind::Write, here, &key, shared);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (left, key, all, posted) = (&left, &key, &all, &posted);
            scope.spawn(move || {
                let part = [thread * EACH, EACH];
                let own = prepare(left, "right", OperationKind::Write, here, key, part);
                for _ in 0..ROUNDS {
                    own.post(Some(b"own")).expect("the operation has one owner");
                    // Several threads try to post this operation at the same time, and one of them
                    // succeeds.
                    match all.post(Some(b"all")) {
                        Ok(()) => drop(posted.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::PeerState { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    own.wait(Some(PATIENCE)).expect("it succeeds");
                    all.wait(Some(PATIENCE)).expect("it succeeds");
                }
            });
        }
    });
    let posted = posted.into_inner();
    assert!(posted >= 1);
    let notes = notifications(&right, posted + THREADS * ROUNDS);
    assert_eq!(notes.iter().filter(|note| note.bytes == b"all").count(), posted);
    assert!(contents(&right, there, bytes) == some_bytes(5, bytes));
}

#[test]
fn ten_thousand_notifications_come_in_their_order() {
    const COUNT: usize = 10_000;
    let [left, right] = pair(lively());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                let mut note = vec![0; number % 300];
                note.extend(number.to_le_bytes());
                loop {
                    match left.notify("right", &note) {
                        Ok(()) => break,
                        Err(Error::NotificationsFull { .. }) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
        for (number, note) in notifications(&right, COUNT).into_iter().enumerate() {
            assert_eq!(note.bytes.len(), number % 300 + 8);
            assert_eq!(note.bytes[number % 300..], number.to_le_bytes());
        }
    });
}

#[test]
fn the_longest_notification_has_the_documented_length() {
    let [left, right] = pair(lively());
    let most = tcpx_core::MAX_NOTIFICATION_BYTES as usize;
    assert_eq!(most, 65_536);
    let (longest, longer) = (some_bytes(7, most), some_bytes(7, most + 1));
    let here = memory(&left, MemoryType::Host, &[1; 8]);
    let there = memory(&right, MemoryType::Host, &[0; 8]);
    let write = prepare(&left, "right", OperationKind::Write, here, &export(&right, there), [0, 8]);
    for refused in [left.notify("right", &longer), write.post(Some(&longer))] {
        assert!(matches!(refused, Err(Error::NotificationTooLong { .. })), "{refused:?}");
    }
    assert_eq!(contents(&right, there, 8), [0; 8], "nothing was posted");
    left.notify("right", &longest).expect("so long it may be");
    write.post(Some(&longest)).expect("so long it may be");
    write.wait(Some(PATIENCE)).expect("it succeeds");
    assert!(notifications(&right, 2).iter().all(|note| note.bytes == longest));
}

/// Four peers write parts of one memory and read all of another.
#[test]
fn several_peers_at_once() {
    const EACH: usize = 300_000;
    let target = open(lively());
    let names = ["north", "east", "south", "west"];
    let peers = names.map(|name| {
        let peer = open(lively());
        join((&peer, name), (&target, "target"));
        peer
    });
    let (to_write, to_read) = (
        memory(&target, MemoryType::Device, &[0; 4 * EACH]),
        memory(&target, MemoryType::Host, &some_bytes(9, 4 * EACH)),
    );
    let keys = [to_write, to_read].map(|memory| export(&target, memory));
    std::thread::scope(|scope| {
        for (index, peer) in peers.iter().enumerate() {
            let keys = &keys;
            scope.spawn(move || {
                let own = memory(peer, MemoryType::Host, &some_bytes(20, 4 * EACH));
                let part = [(index * EACH) as u64, EACH as u64];
                let write = prepare(peer, "target", OperationKind::Write, own, &keys[0], part);
                (0..5).for_each(|_| run(&write));
                let all = [0, 4 * EACH as u64];
                let read = prepare(peer, "target", OperationKind::Read, own, &keys[1], all);
                (0..3).for_each(|_| run(&read));
                assert!(
                    contents(peer, own, 4 * EACH) == some_bytes(9, 4 * EACH),
                    "{index} has read"
                );
            });
        }
    });
    assert!(contents(&target, to_write, 4 * EACH) == some_bytes(20, 4 * EACH), "all have written");
}

#[test]
fn both_ends_connect_at_once_and_reach_each_other() {
    let [left, right] = [open(lively()), open(lively())];
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("it loads");
    right.load_remote_conn_info("left", &left.listen().expect("listen")).expect("it loads");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| right.connect("left"));
        left.connect("right").expect("they connect");
        other.join().expect("no panic").expect("they connect");
    });
    for (here, there, name, byte) in [(&left, &right, "right", 1), (&right, &left, "left", 2)] {
        let own = memory(here, MemoryType::Host, &[byte; 100_000]);
        let lent = memory(there, MemoryType::Host, &[0; 100_000]);
        let key = export(there, lent);
        run(&prepare(here, name, OperationKind::Write, own, &key, [0, 100_000]));
        assert!(contents(there, lent, 100_000) == [byte; 100_000], "{name}");
    }
}

/// The target's program computes and makes no call; its progress thread serves.
#[test]
fn a_target_that_computes_is_reached() {
    let [left, right] = pair(lively());
    let here = memory(&left, MemoryType::Host, &some_bytes(1, 500_000));
    let there = memory(&right, MemoryType::Device, &[0; 500_000]);
    let key = export(&right, there);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let computed = scope.spawn(|| {
            let mut sum = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                sum = (0..100_000u64).fold(sum, |sum, number| sum.rotate_left(5) ^ number);
            }
            sum
        });
        for bytes in [1, 4_096, 500_000] {
            for kind in BOTH {
                run(&prepare(&left, "right", kind, here, &key, [0, bytes]));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        computed.join().expect("no panic");
    });
    assert!(contents(&right, there, 500_000) == some_bytes(1, 500_000));
    drop_all([left, right]);
}

/// Neither end has a progress thread, and both spin.
#[test]
fn two_ends_that_spin_reach_each_other() {
    let [left, right] = pair(soft());
    let here = memory(&left, MemoryType::Host, &some_bytes(1, 500_000));
    let there = memory(&right, MemoryType::Host, &[0; 500_000]);
    let key = export(&right, there);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if !right.progress() {
                    std::thread::yield_now();
                }
            }
        });
        for (kind, bytes) in BOTH.into_iter().flat_map(|kind| [(kind, 64), (kind, 500_000)]) {
            let operation = prepare(&left, "right", kind, here, &key, [0, bytes]);
            operation.post(None).expect("it is not under way");
            // A status makes no progress by itself.
            until("its bytes have moved", || {
                left.progress();
                !matches!(operation.status(), OperationStatus::Active)
            });
            operation.wait(Some(Duration::ZERO)).expect("it succeeds");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(contents(&right, there, 500_000) == some_bytes(1, 500_000));
    drop_all([left, right]);
}
