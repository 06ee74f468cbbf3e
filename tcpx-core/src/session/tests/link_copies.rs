//! Tests of short messages on the link to and from memory that the CPU does not reach: what follows
//! a copy waits for it, and nothing is freed under it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tcpx_protocol::types::MemoryType;
use tcpx_testkit::{PATIENCE, until};

use super::lingering::{BackendControls, close_at_last, hang};
use super::{connected, patient, soft, take_turns, uses};
use crate::settings::LinkBytes;
use crate::{
    Encryption, Error, ExportOptions, MemoryId, MemoryRange, Operation, OperationKind,
    OperationStatus, Post, RemoteAccess, RemoteRange, Session, Transfer,
};

const BYTES: u64 = 900;
/// Bytes of an operation that goes through several buffers.
const LONG_BYTES: u64 = 300_000;

/// Two sessions whose CPU reaches no device memory, each with an area of it.
struct Ends {
    sessions: [Session; 2],
    areas: [MemoryId; 2],
}

impl Ends {
    fn new(options: crate::SessionOptions) -> Self {
        Self::with_areas(options.link_bytes(LinkBytes::Most(4096)), 2 * BYTES)
    }

    fn with_areas(options: crate::SessionOptions, bytes: u64) -> Self {
        let sessions = connected(options);
        for session in &sessions {
            session.shared.engine().expect("no fork").copy_on_link();
        }
        let areas = [0, 1].map(|end: usize| {
            let area = sessions[end].allocate(bytes, MemoryType::Device).expect("there is room");
            let content = content_of(bytes, end as u8);
            sessions[end].write_memory(area, 0, &content).expect("nothing uses it");
            area
        });
        Self { sessions, areas }
    }

    /// Returns an operation of left on three pieces of each area, apart at both ends.
    fn operation(&self, kind: OperationKind) -> Operation {
        self.operation_of(kind, BYTES)
    }

    /// Returns such an operation of this many bytes, with room for twice as many in each area.
    fn operation_of(&self, kind: OperationKind, bytes: u64) -> Operation {
        let [left, right] = &self.sessions;
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        let key = right.export(self.areas[1], options).expect("it is registered");
        let bytes = bytes / 3;
        let local =
            [4, 0, 2].map(|at| MemoryRange { memory: self.areas[0], offset: at * bytes, bytes });
        let remote = [1, 5, 3].map(|at| RemoteRange { key: &key, offset: at * bytes, bytes });
        left.prepare("right", kind, &local, &remote).expect("they fit")
    }

    /// Posts a receive at right, and a send at left once the receive is known there.
    fn message(&self) -> [Transfer; 2] {
        let [left, right] = &self.sessions;
        let (send, receive) = (left.create_transfer("right"), right.create_transfer("left"));
        let (send, receive) = (send.expect("it is up"), receive.expect("it is up"));
        let post = |memory| Post { memory, offset: 0, bytes: BYTES, tag: 1 };
        receive.post_recv(post(self.areas[1])).expect("it fits");
        right.notify("left", b"posted").expect("it is up");
        take_turns(&[left, right], "the receive is known", || !notes(left).is_empty());
        send.post_send(post(self.areas[0])).expect("it fits");
        [send, receive]
    }

    fn read(&self, end: usize) -> Vec<u8> {
        self.read_first(end, 2 * BYTES)
    }

    fn read_first(&self, end: usize, bytes: u64) -> Vec<u8> {
        let mut bytes = vec![0; bytes as usize];
        self.sessions[end].read_memory(self.areas[end], 0, &mut bytes).expect("nothing uses it");
        bytes
    }

    fn all(&self) -> [&Session; 2] {
        self.sessions.each_ref()
    }
}

fn content(seed: u8) -> Vec<u8> {
    content_of(2 * BYTES, seed)
}

fn content_of(bytes: u64, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ (seed + 1)).collect()
}

fn is_done(operation: &Operation) -> bool {
    matches!(operation.status(), OperationStatus::Done)
}

/// Takes the notifications that have come.
fn notes(session: &Session) -> Vec<Vec<u8>> {
    let mut notes = Vec::new();
    session.poll_notifications(&mut notes, usize::MAX).expect("no fork");
    notes.into_iter().map(|note| note.bytes.to_vec()).collect()
}

/// Returns the content of `to` after its pieces of an [`operation`](Ends::operation) were replaced.
fn moved([from, to]: [Vec<u8>; 2], pieces: [(usize, usize); 3]) -> Vec<u8> {
    let bytes = to.len() / 6;
    let mut moved = to;
    for (at, into) in pieces {
        moved[into * bytes..][..bytes].copy_from_slice(&from[at * bytes..][..bytes]);
    }
    moved
}

const THERE: [(usize, usize); 3] = [(4, 1), (0, 5), (2, 3)];

#[test]
fn messages_writes_and_reads_are_copied_at_both_ends() {
    let ends = Ends::new(soft().channels(1));
    let gpus = ends.all().map(hang);
    gpus.iter().for_each(|gpu| gpu.hangs.store(false, Ordering::Relaxed));
    let jobs = || gpus.each_ref().map(|gpu| gpu.submitted.load(Ordering::Relaxed));
    let write = ends.operation(OperationKind::Write);
    write.post(Some(b"written")).expect("it is up");
    take_turns(&ends.all(), "it is written", || is_done(&write));
    assert_eq!(ends.read(1), moved([content(0), content(1)], THERE));
    assert_eq!(jobs(), [3, 3]);
    assert_eq!(notes(&ends.sessions[1]), [b"written".to_vec()]);

    let read = ends.operation(OperationKind::Read);
    ends.sessions[1].write_memory(ends.areas[1], 0, &content(8)).expect("nothing uses it");
    read.post(None).expect("it is up");
    take_turns(&ends.all(), "it is read", || is_done(&read));
    let back = THERE.map(|(at, into)| (into, at));
    assert_eq!(ends.read(0), moved([content(8), content(0)], back));
    assert_eq!(jobs(), [6, 6]);

    let before = ends.read(0);
    let [send, receive] = ends.message();
    take_turns(&ends.all(), "it has come", || receive.is_complete().expect("it is fine"));
    assert!(send.is_complete().expect("it is fine"));
    assert_eq!(ends.read(1)[..BYTES as usize], before[..BYTES as usize]);
    assert_eq!(jobs(), [7, 7]);
    assert_eq!(ends.sessions[1].stats().peers[0].eager_received.messages, 1, "no channel moved it");
}

#[test]
fn what_is_longer_than_a_buffer_goes_through_several() {
    for encryption in [Encryption::Off, Encryption::Require] {
        let options = soft().channels(1).link_bytes(LinkBytes::Most(1 << 20));
        let ends = Ends::with_areas(options.encryption(encryption), 2 * LONG_BYTES);
        let gpus = ends.all().map(hang);
        let write = ends.operation_of(OperationKind::Write, LONG_BYTES);
        write.post(Some(b"written")).expect("it is up");
        gpus[0].hangs.store(false, Ordering::Relaxed);
        // The second part of a chunk is read while the first one is copied.
        let is_read_on = || gpus[1].submitted.load(Ordering::Relaxed) > 3;
        let is_clear = encryption == Encryption::Off;
        take_turns(&ends.all(), "it is read on", || is_read_on() || !is_clear);
        assert!(notes(&ends.sessions[1]).is_empty());
        gpus[1].hangs.store(false, Ordering::Relaxed);
        let mut came = Vec::new();
        take_turns(&ends.all(), "it is written", || {
            came.extend(notes(&ends.sessions[1]));
            is_done(&write) && !came.is_empty()
        });
        let [left, right] = [0, 1].map(|seed| content_of(2 * LONG_BYTES, seed));
        let written = moved([left.clone(), right], THERE);
        assert_eq!(ends.read_first(1, 2 * LONG_BYTES), written);

        let read = ends.operation_of(OperationKind::Read, LONG_BYTES);
        read.post(None).expect("it is up");
        take_turns(&ends.all(), "it is read", || is_done(&read));
        assert_eq!(ends.read_first(0, 2 * LONG_BYTES), left);
        let stats = &ends.sessions[0].stats().peers[0].one_sided;
        assert_eq!(stats.link_bytes_sent, LONG_BYTES, "no channel moved it");
    }
}

#[test]
fn what_came_before_the_end_of_the_link_is_put_in_place() {
    let options = soft().channels(1).link_bytes(LinkBytes::Most(1 << 20));
    let ends = Ends::with_areas(options, 2 * LONG_BYTES);
    let [left, right] = ends.all();
    let gpus = ends.all().map(hang);
    let first = ends.operation_of(OperationKind::Write, BYTES);
    first.post(Some(b"first")).expect("it is up");
    let second = ends.operation_of(OperationKind::Write, LONG_BYTES);
    second.post(None).expect("it is up");
    gpus[0].hangs.store(false, Ordering::Relaxed);
    take_turns(&ends.all(), "the second is read", || gpus[1].submitted.load(Ordering::Relaxed) > 3);
    let key = left.shared.engine().expect("no fork").peer("right").expect("it is up").0;
    left.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
    for _ in 0..100 {
        right.progress();
    }
    gpus[1].hangs.store(false, Ordering::Relaxed);
    let mut came = Vec::new();
    take_turns(&[right], "the first is passed on", || {
        came.extend(notes(right));
        !came.is_empty()
    });
    assert_eq!(came, [b"first".to_vec()]);
}

#[test]
fn what_follows_a_copy_waits_for_it() {
    let ends = Ends::new(soft().channels(1));
    let [left, right] = ends.all();
    let gpu = hang(right);
    let write = ends.operation(OperationKind::Write);
    write.post(Some(b"with it")).expect("it is up");
    left.notify("right", b"behind").expect("it is up");
    take_turns(&ends.all(), "it has come", || gpu.submitted.load(Ordering::Relaxed) > 0);
    for _ in 0..100 {
        let _ = ends.all().map(Session::progress);
        assert!(notes(right).is_empty() && !is_done(&write));
    }
    assert_eq!(uses(right, ends.areas[1]), 1, "it is written");
    gpu.hangs.store(false, Ordering::Relaxed);
    let mut came = Vec::new();
    take_turns(&ends.all(), "they come", || {
        came.extend(notes(right));
        came.len() == 2
    });
    assert_eq!(came, [b"with it".to_vec(), b"behind".to_vec()]);
    take_turns(&ends.all(), "it is answered", || is_done(&write));
    assert_eq!(uses(right, ends.areas[1]), 0);
}

#[test]
fn copies_are_under_way_together_and_no_more_than_allowed() {
    const WRITES: usize = 40;
    let ends = Ends::new(soft().channels(1));
    let [left, right] = ends.all();
    let gpu = hang(left);
    let writes: Vec<_> = (0..WRITES).map(|_| ends.operation(OperationKind::Write)).collect();
    for (number, write) in writes.iter().enumerate() {
        write.post(Some(number.to_string().as_bytes())).expect("it is up");
        left.notify("right", format!("behind {number}").as_bytes()).expect("it is up");
    }
    let copied = || gpu.submitted.load(Ordering::Relaxed) / 3;
    assert_eq!(copied(), 1, "the first does not wait for a round");
    take_turns(&ends.all(), "those allowed are copied", || copied() == 16);
    for _ in 0..100 {
        let _ = ends.all().map(Session::progress);
        assert!(copied() == 16 && notes(right).is_empty());
    }
    gpu.hangs.store(false, Ordering::Relaxed);
    let mut came = Vec::new();
    take_turns(&ends.all(), "they are written", || {
        came.extend(notes(right));
        writes.iter().all(is_done) && came.len() == 2 * WRITES
    });
    // Notes of operations and others keep no order among each other.
    let (behind, with): (Vec<_>, Vec<_>) = came.into_iter().partition(|note| note[0] == b'b');
    let expected = |prefix| (0..WRITES).map(move |number| format!("{prefix}{number}").into_bytes());
    assert!(with.into_iter().eq(expected("")) && behind.into_iter().eq(expected("behind ")));
    assert_eq!(ends.read(1), moved([content(0), content(1)], THERE));
}

#[test]
fn a_call_that_makes_progress_goes_on_for_a_moment_while_it_copies() {
    let ends = Ends::new(soft().channels(1).spin(Duration::ZERO));
    let [left, right] = ends.all();
    let gpu = hang(left);
    let polls = || gpu.polled.load(Ordering::Relaxed);
    let write = ends.operation(OperationKind::Write);
    write.post(Some(b"sent")).expect("it is up");
    assert_eq!(polls(), 1, "its post has asked");
    left.progress();
    assert_eq!(polls(), 3, "a session that does not spin asks before its round, and in it");
    left.shared.copy_spin_us.store(PATIENCE.as_micros() as u32, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("it goes on", || polls() > 10);
            gpu.hangs.store(false, Ordering::Relaxed);
        });
        left.progress();
    });
    take_turns(&[right], "it was sent before the call returned", || !notes(right).is_empty());
}

/// Ends the peer of one end in the middle of this many copies there.
fn ended_while_copying(
    at: usize,
    jobs: usize,
    begin: impl FnOnce(&Ends),
) -> (Ends, Arc<BackendControls>) {
    let ends = Ends::new(soft().channels(1));
    let gpu = hang(ends.all()[at]);
    begin(&ends);
    take_turns(&ends.all(), "it is copied", || gpu.submitted.load(Ordering::Relaxed) == jobs);
    let mut engine = ends.sessions[at].shared.engine().expect("no fork");
    let key = engine.peer(["right", "left"][at]).expect("it is up").0;
    engine.fail_peer(key, Error::Cancelled);
    drop(engine);
    (ends, gpu)
}

#[test]
fn memory_of_an_ended_peer_is_in_use_until_its_copy_has_finished() {
    let mut message = None;
    let (ends, gpu) = ended_while_copying(1, 1, |ends| message = Some(ends.message()));
    let [_, receive] = message.expect("it was posted");
    ends.sessions[1].progress();
    assert!(!receive.is_complete().expect("it has not ended"));
    assert_eq!(uses(&ends.sessions[1], ends.areas[1]), 1);
    gpu.hangs.store(false, Ordering::Relaxed);
    // All of its bytes had come.
    receive.wait(Some(PATIENCE)).expect("it is in place");
    assert_eq!(ends.read(1)[..BYTES as usize], content(0)[..BYTES as usize]);
    assert_eq!(uses(&ends.sessions[1], ends.areas[1]), 0);
    close_at_last(&ends.sessions[1]);

    for (at, kind) in
        [(1, OperationKind::Write), (1, OperationKind::Read), (0, OperationKind::Write)]
    {
        let (ends, gpu) = ended_while_copying(at, 6, |ends| {
            for _ in 0..2 {
                ends.operation(kind).post(None).expect("it is up");
            }
        });
        ends.sessions[at].progress();
        assert_eq!(uses(&ends.sessions[at], ends.areas[at]), 2, "{at}, {kind}");
        gpu.hangs.store(false, Ordering::Relaxed);
        take_turns(&[&ends.sessions[at]], "it has finished", || {
            uses(&ends.sessions[at], ends.areas[at]) == 0
        });
        close_at_last(&ends.sessions[at]);
    }
}

#[test]
fn a_write_that_was_given_up_uses_its_memory_until_its_copy_has_finished() {
    let options = soft().channels(1).link_bytes(LinkBytes::Most(10 * LONG_BYTES));
    let ends = Ends::with_areas(options, 20 * LONG_BYTES);
    let left = &ends.sessions[0];
    let gpu = hang(left);
    // More than may be copied at a time: some of it is withdrawn.
    let write = ends.operation_of(OperationKind::Write, 10 * LONG_BYTES);
    write.post(None).expect("it is up");
    take_turns(&ends.all(), "it is copied", || gpu.submitted.load(Ordering::Relaxed) > 0);
    write.cancel().expect("it is under way");
    let key = left.shared.engine().expect("no fork").peer("right").expect("it is up").0;
    left.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
    left.progress();
    assert_eq!(uses(left, ends.areas[0]), 1);
    gpu.hangs.store(false, Ordering::Relaxed);
    take_turns(&[left], "it has finished", || uses(left, ends.areas[0]) == 0);
    close_at_last(left);
}

#[test]
fn a_copy_that_does_not_finish_ends_the_peer_and_then_the_operation() {
    let ends = Ends::new(soft().channels(1));
    let right = &ends.sessions[1];
    let gpu = hang(right);
    let [_send, receive] = ends.message();
    take_turns(&ends.all(), "it has come", || gpu.submitted.load(Ordering::Relaxed) > 0);
    let is_up = || right.stats().peers[0].state == "up";
    right.shared.progress_at(Instant::now() + Duration::from_secs(4));
    assert!(is_up());
    right.shared.progress_at(Instant::now() + Duration::from_secs(6));
    assert!(!is_up());
    super::pass_unpack_timeout(right);
    let error = receive.wait(Some(PATIENCE)).expect_err("it may not be in place");
    assert!(error.to_string().contains("GPU"), "{error}");
    assert_eq!(uses(right, ends.areas[1]), 1, "it may still be written");
    gpu.hangs.store(false, Ordering::Relaxed);
    close_at_last(right);
    assert_eq!(uses(right, ends.areas[1]), 0);
}

#[test]
fn ends_part_when_what_one_has_asked_for_is_copied() {
    let ends = Ends::new(patient().channels(1));
    let [left, right] = ends.all();
    let gpu = hang(right);
    let write = ends.operation(OperationKind::Write);
    write.post(None).expect("it is up");
    take_turns(&ends.all(), "it has come", || gpu.submitted.load(Ordering::Relaxed) > 0);
    gpu.hangs.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let parting = scope.spawn(|| left.disconnect("right"));
        right.disconnect("left").expect("right parts in peace");
        parting.join().expect("no panic").expect("left parts in peace");
    });
    assert!(is_done(&write));
    assert_eq!(ends.read(1), moved([content(0), content(1)], THERE));
}
