//! Reads and writes of memory that a peer exports, and notifications: its program does nothing.

use std::time::Duration;

use tcpx_core::{
    Error, LinkBytes, MemoryId, MemoryRange, MemoryType, Notification, Operation, OperationKind,
    RemoteKey, RemoteRange, Session,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{
    connect, contents, drop_all, export, lively, memory, open, pair, soft, some_bytes,
};

/// Reads and writes travel on the channels, or on the link.
pub(crate) const WAYS: [LinkBytes; 2] = [LinkBytes::Most(0), LinkBytes::Most(u64::MAX)];

/// Bytes of reads and writes that this end has sent on the link.
pub(crate) fn sent_on_link(session: &Session) -> u64 {
    session.stats().total.one_sided.link_bytes_sent
}

/// Pairs of these lengths, every second place at the one end, backwards at the other.
fn pairs(
    memory: MemoryId,
    key: &RemoteKey,
    each: u64,
    count: u64,
) -> (Vec<MemoryRange>, Vec<RemoteRange<'_>>) {
    let local =
        (0..count).map(|index| MemoryRange { memory, offset: 2 * index * each, bytes: each });
    let remote = (0..count).rev();
    let remote = remote.map(|index| RemoteRange { key, offset: 2 * index * each, bytes: each });
    (local.collect(), remote.collect())
}

fn notification(session: &Session) -> Notification {
    let mut taken = Vec::new();
    session.wait_notifications(&mut taken, 1, Some(PATIENCE)).expect("one comes");
    taken.remove(0)
}

pub(crate) fn run(operation: &Operation, note: Option<&[u8]>) {
    operation.post(note).expect("it is not under way");
    operation.wait(Some(PATIENCE)).expect("it succeeds");
}

#[test]
fn bytes_are_written_and_read_whatever_their_size_and_memory() {
    move_everything(&[1, 7, 4096, 16_384, 16_385, 65_537, 600_001]);
}

#[test]
#[ignore = "deep: megabytes"]
fn bytes_are_written_and_read_also_where_they_are_many() {
    move_everything(&[600_001, 9_000_001]);
}

#[test]
fn a_post_leaves_the_bytes_of_a_long_write_to_the_next_round() {
    let [left, right] = [open(soft().link_bytes(WAYS[1])), open(lively())];
    connect(&left, &right);
    let bytes = 4 << 20;
    let ours = some_bytes(1, bytes);
    let (here, there) =
        (memory(&left, MemoryType::Host, &ours), memory(&right, MemoryType::Host, &vec![0; bytes]));
    let key = export(&right, there);
    let local = [MemoryRange { memory: here, offset: 0, bytes: bytes as u64 }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: bytes as u64 }];
    let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("fits");
    for _ in 0..2 {
        let before = sent_on_link(&left);
        write.post(None).expect("it is not under way");
        // No thread has made a round since: the session has no progress thread.
        assert_eq!(sent_on_link(&left) - before, 0, "the post has sent bytes");
        write.wait(Some(PATIENCE)).expect("it succeeds");
        assert_eq!(sent_on_link(&left) - before, bytes as u64);
    }
    assert!(contents(&right, there, bytes) == ours);
    drop(write);
    drop_all([left, right]);
}

/// Writes and reads of these sizes, each way, from and to each kind of memory.
fn move_everything(sizes: &[usize]) {
    for way in WAYS {
        let [left, right] = pair(lively().link_bytes(way));
        move_sizes(&left, &right, sizes);
        let longest = *sizes.last().expect("there are some") as u64;
        let on_link = [&left, &right].map(|session| sent_on_link(session) >= longest);
        assert_eq!(on_link, [way != WAYS[0]; 2], "{way}");
        drop_all([left, right]);
    }
}

fn move_sizes(left: &Session, right: &Session, sizes: &[usize]) {
    for kinds in [
        [MemoryType::Host, MemoryType::Host],
        [MemoryType::Host, MemoryType::Device],
        [MemoryType::Device, MemoryType::Host],
        [MemoryType::Device, MemoryType::Device],
    ] {
        for &bytes in sizes {
            let (ours, theirs) =
                (some_bytes(bytes as u64, bytes), some_bytes(!(bytes as u64), bytes));
            let here = memory(left, kinds[0], &ours);
            let there = memory(right, kinds[1], &theirs);
            let key = export(right, there);
            let local = [MemoryRange { memory: here, offset: 0, bytes: bytes as u64 }];
            let remote = [RemoteRange { key: &key, offset: 0, bytes: bytes as u64 }];
            let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("fits");
            for round in 0..3u8 {
                run(&write, Some(&[round]));
                let note = notification(right);
                assert_eq!((note.peer.as_str(), &note.bytes[..]), ("left", &[round][..]));
            }
            assert!(contents(right, there, bytes) == ours, "{kinds:?}, {bytes} bytes written");
            right.write_memory(there, 0, &theirs).expect("nothing uses it");
            let read = left.prepare("right", OperationKind::Read, &local, &remote).expect("fits");
            run(&read, Some(b"read"));
            assert_eq!(notification(right).bytes, b"read");
            assert!(contents(left, here, bytes) == theirs, "{kinds:?}, {bytes} bytes read");
            drop((write, read));
            right.unexport(&key).expect("nothing uses it");
            left.deregister_memory(here).expect("nothing uses it");
            right.deregister_memory(there).expect("nothing uses it");
        }
    }
}

#[test]
fn lists_move_as_one() {
    move_lists_each_way(&[(3, 5), (64, 100), (4096, 150), (20_000, 20), (300_000, 3)]);
}

#[test]
#[ignore = "deep: megabytes"]
fn long_lists_move_as_one() {
    move_lists_each_way(&[(4096, 3000), (20_000, 300), (300_000, 17)]);
}

fn move_lists_each_way(lists: &[(u64, u64)]) {
    for way in WAYS {
        let [left, right] = pair(lively().link_bytes(way));
        move_lists(&left, &right, lists);
        drop_all([left, right]);
    }
}

/// Reads and writes of lists of pieces that lie apart: bytes of each, and how many.
fn move_lists(left: &Session, right: &Session, lists: &[(u64, u64)]) {
    for kind in [MemoryType::Host, MemoryType::Device] {
        for &(each, count) in lists {
            let total = (2 * each * count) as usize;
            let (ours, theirs) = (some_bytes(each, total), some_bytes(count, total));
            let here = memory(left, kind, &ours);
            let there = memory(right, kind, &theirs);
            let key = export(right, there);
            let (local, remote) = pairs(here, &key, each, count);
            let mut written = theirs.clone();
            let mut read = ours.clone();
            for (from, to) in local.iter().zip(&remote) {
                let (from, to) = (from.offset as usize, to.offset as usize);
                let each = each as usize;
                written[to..to + each].copy_from_slice(&ours[from..from + each]);
                read[from..from + each].copy_from_slice(&theirs[to..to + each]);
            }
            let reads = left.prepare("right", OperationKind::Read, &local, &remote).expect("fits");
            run(&reads, None);
            assert!(contents(left, here, total) == read, "{kind:?}, {count} of {each} read");
            left.write_memory(here, 0, &ours).expect("nothing uses it");
            let writes =
                left.prepare("right", OperationKind::Write, &local, &remote).expect("fits");
            for _ in 0..2 {
                run(&writes, None);
            }
            assert!(
                contents(right, there, total) == written,
                "{kind:?}, {count} of {each} written"
            );
        }
    }
}

#[test]
fn a_peer_with_the_key_is_served_without_an_accept() {
    let target = open(lively().accept_all(true));
    let info = target.listen().expect("listen");
    let there = memory(&target, MemoryType::Host, &[0; 8]);
    let key = export(&target, there);
    // Two of one name: the second gets one that is made up.
    for (name, byte) in [("decode", 1), ("decode", 2), ("", 3)] {
        let initiator = open(lively().name(name));
        initiator.load_remote_conn_info("prefill", &info).expect("own bytes load");
        initiator.connect("prefill").expect("no accept is needed");
        let here = memory(&initiator, MemoryType::Host, &[byte; 8]);
        let local = [MemoryRange { memory: here, offset: 0, bytes: 8 }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: 8 }];
        let write =
            initiator.prepare("prefill", OperationKind::Write, &local, &remote).expect("fits");
        run(&write, Some(&[byte]));
        let note = notification(&target);
        assert_eq!(note.bytes, [byte]);
        assert_eq!(note.peer == "decode", byte == 1, "{}", note.peer);
        target.notify(&note.peer, b"thanks").expect("it is up");
        assert_eq!(notification(&initiator).bytes, b"thanks");
        if byte == 1 {
            // The others come while it is there.
            std::mem::forget(write);
            std::mem::forget(initiator);
        }
    }
    assert_eq!(contents(&target, there, 8), [3; 8]);
}

/// Left asks to write and makes no progress; right takes its memory back.
/// What travels on the link has no chunks under way that its sender would have to name: left writes
/// and stops in the middle, and right waits for nothing.
/// Left writes again and again; right takes its memory back in the middle.
/// What was not dealt when the memory is taken back stays where it is.
#[test]
fn notifications_come_in_order_and_wait_for_their_reader() {
    let [left, right] = pair(lively());
    let mut sent = 0u64;
    let full = loop {
        match left.notify("right", &vec![sent as u8; (sent % 70) as usize * 1000]) {
            Ok(()) => sent += 1,
            Err(Error::NotificationsFull { .. }) => break sent,
            Err(error) if sent > 10_000 => panic!("{error}"),
            Err(error) => {
                assert!(matches!(error, Error::NotificationTooLong { .. }), "{error}");
                sent += 1;
            }
        }
    };
    assert!(full > 10);
    let mut expected = (0..sent).filter(|number| number % 70 * 1000 <= 65_536);
    for number in expected.by_ref() {
        let note = notification(&right);
        assert_eq!((note.bytes.len() as u64, note.peer.as_str()), (number % 70 * 1000, "left"));
        assert!(note.bytes.iter().all(|byte| *byte == number as u8));
    }
    left.notify("right", b"").expect("there is room again");
    assert_eq!(notification(&right).bytes, b"");
}

#[test]
fn a_session_reaches_itself() {
    let session = open(lively().accept_all(true).name("me"));
    session.load_remote_conn_info("self", &session.listen().expect("listen")).expect("own bytes");
    session.connect("self").expect("it is there");
    let here = memory(&session, MemoryType::Device, &[7; 100_000]);
    let there = memory(&session, MemoryType::Host, &[0; 100_000]);
    let key = export(&session, there);
    let local = [MemoryRange { memory: here, offset: 0, bytes: 100_000 }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: 100_000 }];
    let write = session.prepare("self", OperationKind::Write, &local, &remote).expect("fits");
    run(&write, Some(b"there"));
    assert_eq!(notification(&session).bytes, b"there");
    assert!(contents(&session, there, 100_000) == [7; 100_000]);
}

#[test]
fn a_wait_for_a_notification_returns_it_or_times_out() {
    let [left, right] = pair(lively());
    let mut taken = Vec::new();
    let none = right.wait_notifications(&mut taken, 9, Some(Duration::from_millis(20)));
    assert!(matches!(none, Err(Error::Deadline { peer: None, .. })), "{none:?}");
    assert_eq!(
        right.wait_notifications(&mut taken, 0, Some(PATIENCE)).expect("none are wanted"),
        0
    );
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| notification(&right))).collect();
        for note in [&b"a"[..], b"", b"c"] {
            left.notify("right", note).expect("there is room");
        }
        let mut notes: Vec<_> =
            waiting.into_iter().map(|thread| thread.join().expect("it gets one").bytes).collect();
        notes.sort();
        assert_eq!(notes, [&b""[..], b"a", b"c"]);
        let waiting = scope.spawn(|| right.wait_notifications(&mut Vec::new(), 1, Some(PATIENCE)));
        right.close().expect("nothing prevents the close");
        assert!(matches!(waiting.join().expect("it returns"), Err(Error::Closed)));
    });
}
