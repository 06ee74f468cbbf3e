//! All bytes move, and the notification comes after them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tcpx_core::{
    Access, Error, ExportOptions, MemoryRange, OperationKind, OperationStatus, RemoteAccess,
    RemoteRange, Session,
};
use tcpx_testkit::PATIENCE;

use super::groups::{
    BYTES, Memories, Range, crosswise, group, notes, options, pair, prepare, some_bytes,
};

/// Returns ranges of many lengths between each two devices. No two of them touch, and neighbours in
/// the list are of different devices.
fn ranges_of_all_pairs() -> Vec<Range> {
    let mut ranges = Vec::new();
    let mut used = ([0; 3], [0; 3]);
    for bytes in [1, 0, 100, 4096, 20_000, 100_001] {
        for here in 0..3 {
            for there in 0..3 {
                let (own, theirs) = (&mut used.0[here], &mut used.1[there]);
                ranges.push(Range { here: (here, *own), there: (there, *theirs), bytes });
                *own += bytes + 7;
                *theirs += bytes + 3;
            }
        }
    }
    ranges
}

#[test]
fn ranges_of_all_devices_are_one_operation() {
    let ([left, right], [ours, theirs]) = pair();
    let ranges = ranges_of_all_pairs();
    let total: u64 = ranges.iter().map(|range| range.bytes).sum();
    let mut context = 0;
    for kind in [OperationKind::Write, OperationKind::Read] {
        let from_left = kind == OperationKind::Write;
        for note in [None, Some(&b"all of it"[..])] {
            context += 1;
            let mut here = [0, 1, 2].map(some_bytes);
            let mut there = [3, 4, 5].map(some_bytes);
            for device in 0..3 {
                ours.fill(&left, device, &here[device]);
                theirs.fill(&right, device, &there[device]);
            }
            let operation = prepare(&left, "right", kind, (&ours.ids, &theirs.keys), &ranges);
            let operation = operation.expect("it fits");
            operation.report_completions(context).expect("no fork");
            assert!(matches!(operation.status(), OperationStatus::Idle));
            operation.wait(Some(PATIENCE)).expect("nothing was posted");
            operation.post(note).expect("it is not under way");
            operation.wait(Some(PATIENCE)).expect("it succeeds");
            assert!(matches!(operation.status(), OperationStatus::Done));
            let counts = operation.counts().expect("no fork");
            assert_eq!((counts.operations_posted, counts.operations_done), (1, 1));
            assert_eq!((counts.bytes_done, counts.chunks_done), (total, counts.chunks_posted));
            let mut completions = Vec::new();
            assert_eq!(left.poll_completions(&mut completions, 9).expect("no fork"), 1);
            assert_eq!((completions[0].context, completions[0].rounds), (context, 1));
            assert!(completions[0].result.is_ok());
            if note.is_some() {
                assert_eq!(notes(&right, 1), [b"all of it"]);
            }
            for range in &ranges {
                let at = |offset: u64| offset as usize..(offset + range.bytes) as usize;
                let own = &mut here[range.here.0][at(range.here.1)];
                let other = &mut there[range.there.0][at(range.there.1)];
                match from_left {
                    true => other.copy_from_slice(own),
                    false => own.copy_from_slice(other),
                }
            }
            for device in 0..3 {
                assert!(ours.contents(&left, device) == here[device], "{kind} here {device}");
                assert!(theirs.contents(&right, device) == there[device], "{kind} there {device}");
            }
        }
    }
    let connections: usize =
        left.stats_by_device().iter().map(|(_, session)| session.peers.len()).sum();
    assert_eq!(connections, 9, "one for each pair");
    assert!(right.poll_notifications(&mut Vec::new(), 1).expect("no fork") == 0, "one each");
}

/// Sets a flag when the test ends, also when it fails, so that the flag's readers stop.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The thread that takes the notification looks at every byte at once, while other operations keep
/// all connections busy.
#[test]
fn a_notification_comes_after_every_byte_of_every_device() {
    notify_after_every_byte(6);
}

#[test]
#[ignore = "deep: many times"]
fn a_notification_comes_after_every_byte_of_every_device_each_time() {
    notify_after_every_byte(40);
}

fn notify_after_every_byte(rounds: u8) {
    let ([left, right], [ours, theirs]) = pair();
    let (loads, loaded) = (Memories::new(&left), Memories::new(&right));
    let all: Vec<Range> = (0..9)
        .map(|pair| Range { here: (pair / 3, 0), there: (pair % 3, 0), bytes: BYTES })
        .collect();
    let load = prepare(&left, "right", OperationKind::Write, (&loads.ids, &loaded.keys), &all);
    let (load, is_over) = (load.expect("it fits"), AtomicBool::new(false));
    load.post(None).expect("it is not under way");
    load.wait(Some(PATIENCE)).expect("it succeeds");
    let whole = crosswise();
    let write = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &whole);
    let write = write.expect("it fits");
    let (has, right_has) = channel();
    std::thread::scope(|scope| {
        let _over = SetAtEnd(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                load.post(None).expect("it is not under way");
                load.wait(Some(PATIENCE)).expect("it succeeds");
            }
        });
        let right = &right;
        scope.spawn(move || {
            for round in 1..=rounds {
                assert_eq!(notes(right, 1), [[round]]);
                for device in 0..3 {
                    let contents = theirs.contents(right, device);
                    let early = contents.iter().filter(|byte| **byte != round).count();
                    assert_eq!(early, 0, "bytes of device {device} come later, round {round}");
                }
                has.send(round).expect("the receiver lives");
            }
        });
        for round in 1..=rounds {
            ours.fill_all(&left, round);
            write.post(Some(&[round])).expect("it is not under way");
            write.wait(Some(PATIENCE)).expect("it succeeds");
            if right_has.recv() != Ok(round) {
                break;
            }
        }
    });
}

#[test]
fn it_is_posted_a_hundred_times() {
    post_again(100);
}

#[test]
#[ignore = "deep: ten times as often"]
fn it_is_posted_a_thousand_times() {
    post_again(1000);
}

fn post_again(posts: u32) {
    let ([left, right], [ours, theirs]) = pair();
    let ranges: Vec<Range> = (0..9)
        .map(|pair| Range { here: (pair / 3, 0), there: (pair % 3, pair as u64 * 600), bytes: 600 })
        .collect();
    for kind in [OperationKind::Write, OperationKind::Read] {
        let operation = prepare(&left, "right", kind, (&ours.ids, &theirs.keys), &ranges);
        let operation = operation.expect("it fits");
        for post in 0..posts {
            operation.post(Some(&post.to_le_bytes())).expect("it is not under way");
            operation.wait(Some(PATIENCE)).expect("it succeeds");
            assert_eq!(notes(&right, 1), [post.to_le_bytes()]);
        }
        let counts = operation.counts().expect("no fork");
        assert_eq!(
            (counts.operations_done, counts.bytes_done),
            (posts.into(), u64::from(posts) * 9 * 600)
        );
    }
}

/// Also where the other end is in no group, and where it is the same group.
#[test]
fn several_devices_here_and_one_session_there() {
    let left = group("left");
    let ours = Memories::new(&left);
    left.load_remote_conn_info("me", &left.listen().expect("listen")).expect("own bytes load");
    let write = prepare(
        &left,
        "me",
        OperationKind::Write,
        (&ours.ids, &ours.keys),
        &[
            Range { here: (0, 0), there: (1, 100_000), bytes: 50_000 },
            Range { here: (1, 0), there: (2, 100_000), bytes: 50_000 },
            Range { here: (2, 0), there: (0, 100_000), bytes: 50_000 },
        ],
    );
    ours.fill_all(&left, 4);
    let write = write.expect("it fits");
    write.post(Some(b"to me")).expect("it is not under way");
    write.wait(Some(PATIENCE)).expect("it succeeds");
    assert_eq!(notes(&left, 1), [b"to me"]);

    let alone = Session::new(options().progress_thread(true).accept_all(true)).expect("soft");
    left.load_remote_conn_info("alone", &alone.listen().expect("listen")).expect("own bytes load");
    let there = alone.register_buffer(vec![0; 3 * 5000], Access::ReadWrite);
    let there = there.expect("memory");
    let key = alone.export(there, ExportOptions::new(RemoteAccess::ReadWrite)).expect("registered");
    let local = ours.ids.map(|memory| MemoryRange { memory, offset: 0, bytes: 5000 });
    let remote = [0, 1, 2].map(|at| RemoteRange { key: &key, offset: at * 5000, bytes: 5000 });
    let write = left.prepare("alone", OperationKind::Write, &local, &remote).expect("it fits");
    write.post(Some(b"alone")).expect("it is not under way");
    write.wait(Some(PATIENCE)).expect("it succeeds");
    let mut taken = Vec::new();
    alone.poll_notifications(&mut taken, 9).expect("no fork");
    assert_eq!(taken.len(), 1, "it is there when the operation is done");
    let mut contents = vec![0; 3 * 5000];
    alone.read_memory(there, 0, &mut contents).expect("nothing uses it");
    assert_eq!(contents, vec![4; 3 * 5000]);
}

#[test]
fn a_thread_waits_for_notifications_of_all_devices() {
    let ([left, right], [ours, theirs]) = pair();
    let soon = Some(Duration::from_millis(5));
    let mut taken = Vec::new();
    let nothing = right.wait_notifications(&mut taken, 1, soon).expect_err("none was sent");
    assert!(matches!(nothing, Error::Deadline { peer: None, .. }), "{nothing}");
    assert_eq!(right.wait_notifications(&mut taken, 0, None).expect("it wants none"), 0);
    let write = prepare(
        &left,
        "right",
        OperationKind::Write,
        (&ours.ids, &theirs.keys),
        &[Range { here: (1, 0), there: (2, 0), bytes: BYTES }],
    );
    let write = write.expect("it fits");
    let (has, right_has) = channel();
    std::thread::scope(|scope| {
        let right = &right;
        let waits = scope.spawn(move || {
            let mut received = Vec::new();
            for count in 1..=200 {
                right.wait_notifications(&mut received, 1, Some(PATIENCE)).expect("one comes");
                assert_eq!(received.len(), count);
            }
            has.send(()).expect("the receiver lives");
            // Nothing comes any more: the end of the group ends it.
            right.wait_notifications(&mut received, 1, None)
        });
        for _ in 0..100 {
            write.post(Some(b"of a GPU")).expect("it is not under way");
            left.notify("right", b"of the host").expect("there is room");
            write.wait(Some(PATIENCE)).expect("it succeeds");
        }
        right_has.recv().expect("all come");
        right.close().expect("left answers");
        let closed = waits.join().expect("no panic").expect_err("nothing comes");
        assert!(matches!(closed, Error::Closed), "{closed}");
    });
}
