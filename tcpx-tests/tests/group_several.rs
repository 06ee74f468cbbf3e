//! Operations of groups whose ranges lie on several devices, at either end. Ordinary memory stands
//! in for GPUs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tcpx_core::{
    Device, Error, ExportOptions, Group, MemoryId, MemoryRange, Operation, OperationKind,
    OperationStatus, PluginChoice, PostOptions, RemoteAccess, RemoteKey, RemoteProblem,
    RemoteRange, Session, SessionOptions,
};
use tcpx_tests::pattern;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const DEVICES: [Device; 3] = [Device::Host, Device::Gpu(0), Device::Gpu(1)];
/// Memory of each device.
const BYTES: u64 = 1 << 20;
/// Set in a process that is to serve memory.
const SERVES: &str = "TCPX_TEST_SEVERAL_SERVES";

fn options() -> SessionOptions {
    SessionOptions::default().plugin(PluginChoice::Soft).emulated_gpus(2)
}

fn group(name: &str) -> Group {
    Group::new(options().name(name)).expect("the software plugin is always there")
}

/// Memory of each device of a group, and keys to it.
struct Memories {
    ids: [MemoryId; 3],
    keys: [RemoteKey; 3],
}

impl Memories {
    fn new(group: &Group) -> Self {
        let ids = DEVICES.map(|device| group.allocate(device, BYTES).expect("memory"));
        let access = RemoteAccess::ReadWrite;
        let keys = ids.map(|id| group.export(id, ExportOptions::new(access)).expect("it is there"));
        Self { ids, keys }
    }

    fn fill(&self, group: &Group, device: usize, contents: &[u8]) {
        group.write_memory(self.ids[device], 0, contents).expect("nothing uses it");
    }

    fn fill_all(&self, group: &Group, byte: u8) {
        (0..3).for_each(|device| self.fill(group, device, &vec![byte; BYTES as usize]));
    }

    /// What is there. It is refused while a peer still uses the memory.
    fn contents(&self, group: &Group, device: usize) -> Vec<u8> {
        let mut contents = vec![0; BYTES as usize];
        group.read_memory(self.ids[device], 0, &mut contents).expect("nothing uses it");
        contents
    }
}

/// Two groups, of which the first knows the way to the second, and their memory.
fn pair() -> ([Group; 2], [Memories; 2]) {
    let (left, right) = (group("left"), group("right"));
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    let memories = [Memories::new(&left), Memories::new(&right)];
    ([left, right], memories)
}

/// As many bytes as a device has, of this pattern.
fn some_bytes(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    pattern::fill(seed, 0, &mut bytes);
    bytes
}

/// A range here and one at the peer, of the same length: device, and offset.
#[derive(Clone, Copy, Debug)]
struct Range {
    here: (usize, u64),
    there: (usize, u64),
    bytes: u64,
}

fn prepare(
    group: &Group,
    peer: &str,
    kind: OperationKind,
    (ids, keys): (&[MemoryId; 3], &[RemoteKey; 3]),
    ranges: &[Range],
) -> Result<Operation, Error> {
    let local =
        |it: &Range| MemoryRange { memory: ids[it.here.0], offset: it.here.1, bytes: it.bytes };
    let remote =
        |it: &Range| RemoteRange { key: &keys[it.there.0], offset: it.there.1, bytes: it.bytes };
    let local: Vec<_> = ranges.iter().map(local).collect();
    let remote: Vec<_> = ranges.iter().map(remote).collect();
    group.prepare(peer, kind, &local, &remote)
}

/// All of the memory of each device here, to the next device there.
fn crosswise() -> [Range; 3] {
    [0, 1, 2].map(|device| Range { here: (device, 0), there: ((device + 1) % 3, 0), bytes: BYTES })
}

fn notes(group: &Group, count: usize) -> Vec<Vec<u8>> {
    let give_up_at = Instant::now() + PATIENCE.expect("a time");
    let mut taken = Vec::new();
    while taken.len() < count {
        let room = count - taken.len();
        if group.poll_notifications(&mut taken, room).expect("no fork") == 0 {
            assert!(Instant::now() < give_up_at, "{} of {count} notifications", taken.len());
            std::thread::yield_now();
        }
    }
    taken.into_iter().map(|note| note.bytes).collect()
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + PATIENCE.expect("a time");
    while !is_so() {
        assert!(Instant::now() < give_up_at, "never: {what}");
        std::thread::yield_now();
    }
}

/// Between each two devices ranges of many lengths, none of which touch, in an order in which
/// neighbours are of other devices.
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
            operation.wait(PATIENCE).expect("nothing was posted");
            operation.post(note).expect("it is not under way");
            operation.wait(PATIENCE).expect("it goes well");
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
    let connections: usize = left.stats().iter().map(|(_, session)| session.peers.len()).sum();
    assert_eq!(connections, 9, "one for each pair");
    assert!(right.poll_notifications(&mut Vec::new(), 1).expect("no fork") == 0, "one each");
}

/// Whoever has the notification looks at every byte at once, while other operations keep all
/// connections busy.
#[test]
fn a_notification_comes_after_every_byte_of_every_device() {
    const ROUNDS: u8 = 40;
    let ([left, right], [ours, theirs]) = pair();
    let (loads, loaded) = (Memories::new(&left), Memories::new(&right));
    let all: Vec<Range> = (0..9)
        .map(|pair| Range { here: (pair / 3, 0), there: (pair % 3, 0), bytes: BYTES })
        .collect();
    let load = prepare(&left, "right", OperationKind::Write, (&loads.ids, &loaded.keys), &all);
    let (load, is_over) = (load.expect("it fits"), AtomicBool::new(false));
    let whole = crosswise();
    let write = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &whole);
    let write = write.expect("it fits");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                load.post(None).expect("it is not under way");
                load.wait(PATIENCE).expect("it goes well");
            }
        });
        let checks = scope.spawn(|| {
            for round in 1..=ROUNDS {
                assert_eq!(notes(&right, 1), [[round]]);
                for device in 0..3 {
                    let contents = theirs.contents(&right, device);
                    let early = contents.iter().filter(|byte| **byte != round).count();
                    assert_eq!(early, 0, "bytes of device {device} come later, round {round}");
                }
                right.notify("left", &[round]).expect("it is up");
            }
        });
        left.connect("right").expect("it is there");
        for round in 1..=ROUNDS {
            ours.fill_all(&left, round);
            write.post(Some(&[round])).expect("it is not under way");
            write.wait(PATIENCE).expect("it goes well");
            if checks.is_finished() {
                break;
            }
            assert_eq!(notes(&left, 1), [[round]]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn it_is_posted_a_thousand_times() {
    const POSTS: u32 = 1000;
    let ([left, right], [ours, theirs]) = pair();
    let ranges: Vec<Range> = (0..9)
        .map(|pair| Range { here: (pair / 3, 0), there: (pair % 3, pair as u64 * 600), bytes: 600 })
        .collect();
    for kind in [OperationKind::Write, OperationKind::Read] {
        let operation = prepare(&left, "right", kind, (&ours.ids, &theirs.keys), &ranges);
        let operation = operation.expect("it fits");
        for post in 0..POSTS {
            operation.post(Some(&post.to_le_bytes())).expect("it is not under way");
            operation.wait(PATIENCE).expect("it goes well");
            assert_eq!(notes(&right, 1), [post.to_le_bytes()]);
        }
        let counts = operation.counts().expect("no fork");
        assert_eq!((counts.operations_done, counts.bytes_done), (1000, 1000 * 9 * 600));
    }
}

#[test]
fn one_key_that_opens_nothing_any_more_ends_all_of_it() {
    let ([left, right], [ours, theirs]) = pair();
    let whole = crosswise();
    let write = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &whole);
    let write = write.expect("it fits");
    write.post(None).expect("it is not under way");
    write.wait(PATIENCE).expect("it goes well");
    // Device 1 here writes it: not the first part, and not the last.
    right.unexport(&theirs.keys[2]).expect("nothing uses it");
    theirs.fill_all(&right, 9);
    for _ in 0..20 {
        write.post(Some(b"never")).expect("it is not under way");
        let refused = write.wait(PATIENCE).expect_err("it opens nothing");
        let is_named = matches!(&refused, Error::Remote {
            peer: Some(peer), problem: RemoteProblem::Revoked, ..
        } if peer == "right/gpu1 from gpu0");
        assert!(is_named, "{refused}");
        assert!(matches!(write.status(), OperationStatus::Failed(_)));
    }
    assert!(theirs.contents(&right, 2).iter().all(|byte| *byte == 9), "it is not exported");
    // The rest goes on, and no notification has come of what failed.
    let rest = [whole[0], whole[2]];
    let rest = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &rest);
    let rest = rest.expect("it fits");
    rest.post(Some(b"rest")).expect("it is not under way");
    rest.wait(PATIENCE).expect("it goes well");
    assert_eq!(notes(&right, 1), [b"rest"]);
    assert_eq!(right.poll_notifications(&mut Vec::new(), 1).expect("no fork"), 0);
    drop((write, rest));
    ours.ids.map(|id| left.deregister_memory(id).expect("nothing uses it"));
}

#[test]
fn what_does_not_fit_is_refused_with_its_place_in_the_list() {
    let ([left, right], [ours, theirs]) = pair();
    let memory = (&ours.ids, &theirs.keys);
    let try_prepare =
        |ranges: &[Range]| prepare(&left, "right", OperationKind::Write, memory, ranges);
    let mut outside = crosswise();
    for (place, peer) in [(0, "right/gpu0 from host"), (1, "right/gpu1 from gpu0")] {
        outside[place].there.1 = 1;
        let refused = try_prepare(&outside).expect_err("it reaches past the end");
        let is_named = matches!(&refused, Error::Remote {
            peer: Some(named),
            problem: RemoteProblem::OutOfRange { index, offset: 1, bytes: BYTES, .. },
            ..
        } if named == peer && *index == place);
        assert!(is_named, "{refused}");
        outside[place].there.1 = 0;
    }
    for offset in [u64::MAX, u64::MAX - BYTES + 1] {
        outside[0].here.1 = offset;
        let refused = try_prepare(&outside).expect_err("there is no such memory");
        assert!(matches!(refused, Error::Registration { .. }), "{refused}");
    }
    let empty = crosswise().map(|range| Range { bytes: 0, ..range });
    let refused = try_prepare(&empty).expect_err("nothing is to be moved");
    assert!(matches!(refused, Error::Remote { problem: RemoteProblem::Nothing, .. }), "{refused}");
    let local =
        crosswise().map(|it| MemoryRange { memory: ours.ids[it.here.0], offset: 0, bytes: 8 });
    let remote =
        [0, 1].map(|device| RemoteRange { key: &theirs.keys[device], offset: 0, bytes: 8 });
    let refused = left.prepare("right", OperationKind::Write, &local, &remote);
    let refused = refused.expect_err("one is alone");
    let differs =
        matches!(refused, Error::Remote { problem: RemoteProblem::LengthsDiffer { .. }, .. });
    assert!(differs, "{refused}");
    // Empty ranges of other devices are no parts, but what they name is looked at.
    let mut one = crosswise().map(|range| Range { bytes: 0, ..range });
    one[1].bytes = 5000;
    let write = try_prepare(&one).expect("it fits");
    write.post(Some(b"one")).expect("it is not under way");
    write.wait(PATIENCE).expect("it goes well");
    assert_eq!(notes(&right, 1), [b"one"]);
    left.deregister_memory(ours.ids[2]).expect("nothing uses it");
    let refused = try_prepare(&one).expect_err("one is not registered");
    assert!(matches!(refused, Error::UnknownRegistration { id } if id == ours.ids[2]), "{refused}");
    assert!(matches!(try_prepare(&crosswise()), Err(Error::UnknownRegistration { .. })));
    let unknown = prepare(&left, "nobody", OperationKind::Write, memory, &crosswise());
    let unknown = unknown.expect_err("nobody has that name");
    assert!(
        matches!(&unknown, Error::UnknownPeer { peer, .. } if peer == "nobody/gpu0 from host"),
        "{unknown}"
    );
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
    write.wait(PATIENCE).expect("it goes well");
    assert_eq!(notes(&left, 1), [b"to me"]);

    let alone = Session::new(options().progress_thread(true).accept_all(true)).expect("soft");
    left.load_remote_conn_info("alone", &alone.listen().expect("listen")).expect("own bytes load");
    let there = alone.register_buffer(vec![0; 3 * 5000], tcpx_core::Access::ReadWrite);
    let there = there.expect("memory");
    let key = alone.export(there, ExportOptions::new(RemoteAccess::ReadWrite)).expect("registered");
    let local = ours.ids.map(|memory| MemoryRange { memory, offset: 0, bytes: 5000 });
    let remote = [0, 1, 2].map(|at| RemoteRange { key: &key, offset: at * 5000, bytes: 5000 });
    let write = left.prepare("alone", OperationKind::Write, &local, &remote).expect("it fits");
    write.post(Some(b"alone")).expect("it is not under way");
    write.wait(PATIENCE).expect("it goes well");
    let mut taken = Vec::new();
    alone.poll_notifications(&mut taken, 9).expect("no fork");
    assert_eq!(taken.len(), 1, "it is there when the operation is done");
    let mut contents = vec![0; 3 * 5000];
    alone.read_memory(there, 0, &mut contents).expect("nothing uses it");
    assert_eq!(contents, vec![4; 3 * 5000]);
}

/// What the other process of the next tests does.
#[test]
fn serves_another_process() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let group = group("server");
    let memories = Memories::new(&group);
    memories.fill_all(&group, 6);
    let mut line = hex(&group.listen().expect("listen"));
    for key in &memories.keys {
        line += " ";
        line += &hex(&key.serialize());
    }
    println!("\nserves {line}");
    // Until the test kills this process.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
}

/// A process that serves memory of all devices, and this end.
struct Served {
    child: Child,
    client: Group,
    ours: Memories,
    keys: [RemoteKey; 3],
}

impl Served {
    /// All pairs are connected that [`crosswise`] has.
    fn new() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "serves_another_process", "--nocapture"])
            .env(SERVES, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.find_map(|line| line.ok()?.strip_prefix("serves ").map(str::to_owned));
        let words: Vec<_> = line.expect("it says so").split(' ').map(unhex).collect();
        let client = group("client");
        client.load_remote_conn_info("server", &words[0]).expect("its bytes load");
        let key = |at: usize| RemoteKey::deserialize(&words[at]).expect("a key");
        let keys = [1, 2, 3].map(key);
        let ours = Memories::new(&client);
        let served = Self { child, client, ours, keys };
        let read = served.prepare(OperationKind::Read);
        read.post(None).expect("it is not under way");
        read.wait(PATIENCE).expect("it goes well");
        served
    }

    fn prepare(&self, kind: OperationKind) -> Operation {
        let memory = (&self.ours.ids, &self.keys);
        prepare(&self.client, "server", kind, memory, &crosswise()).expect("it fits")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it lives");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_peer_that_is_killed_ends_all_of_it() {
    for kind in [OperationKind::Write, OperationKind::Read] {
        let mut served = Served::new();
        let operation = served.prepare(kind);
        served.signal(Signal::STOP);
        operation.post(Some(b"never")).expect("it waits");
        served.child.kill().expect("it lives");
        let gone = operation.wait(PATIENCE).expect_err("nobody is there");
        let is_named = matches!(&gone, Error::PeerGone { peer, .. }
            if peer.starts_with("server") && peer.contains(" from "));
        assert!(is_named, "{gone}");
        let again = operation.post(None).and_then(|()| operation.wait(PATIENCE));
        again.expect_err("nobody is there");
        drop(operation);
        served.ours.ids.map(|id| served.client.deregister_memory(id).expect("nothing uses it"));
    }
}

/// The peer does nothing, so no part ends by itself.
#[test]
fn it_is_cancelled_and_let_go_of_under_way() {
    let served = Served::new();
    let write = served.prepare(OperationKind::Write);
    write.cancel().expect("nothing is under way");
    for note in [None, Some(&b"never"[..])] {
        served.signal(Signal::STOP);
        write.post(note).expect("it is not under way");
        assert!(matches!(write.status(), OperationStatus::Active));
        let busy = write.post(note).expect_err("it is under way");
        assert!(matches!(&busy, Error::PeerState { peer, .. } if peer == "server"), "{busy}");
        let short = write.wait(Some(Duration::from_millis(10))).expect_err("nobody answers");
        assert!(
            matches!(&short, Error::Deadline { peer: Some(peer), .. } if peer.contains(" from ")),
            "{short}"
        );
        let in_use =
            served.client.deregister_memory(served.ours.ids[1]).expect_err("a part uses it");
        assert!(matches!(in_use, Error::InUse { .. }), "{in_use}");
        write.cancel().expect("no fork");
        served.signal(Signal::CONT);
        let cancelled = write.wait(PATIENCE).expect_err("it was given up");
        assert!(matches!(cancelled, Error::Cancelled), "{cancelled}");
        // It can be posted again.
        write.post(None).expect("it is not under way");
        write.wait(PATIENCE).expect("it goes well");
    }
    for (kind, note) in [
        (OperationKind::Write, None),
        (OperationKind::Write, Some(&b"never"[..])),
        (OperationKind::Read, None),
        (OperationKind::Read, Some(&b"never"[..])),
    ] {
        let released = served.prepare(kind);
        released.report_completions(9).expect("no fork");
        served.signal(Signal::STOP);
        released.post(note).expect("it waits");
        drop(released);
        served.signal(Signal::CONT);
    }
    drop(write);
    // It waits until the peer has answered.
    served.ours.ids.map(|id| served.client.deregister_memory(id).expect("it becomes free"));
    assert_eq!(served.client.poll_completions(&mut Vec::new(), 9).expect("no fork"), 0);
}

/// One part cannot be posted: the other, which the peer does not answer, is given up.
#[test]
fn a_part_that_fails_ends_those_that_would_go_on() {
    let served = Served::new();
    let write = served.prepare(OperationKind::Write);
    served.client.deregister_memory(served.ours.ids[2]).expect("nothing uses it");
    served.signal(Signal::STOP);
    write.post(Some(b"never")).expect("the first part is posted");
    let failed = write.wait(PATIENCE).expect_err("a part has no memory");
    let is_it = matches!(failed, Error::UnknownRegistration { id } if id == served.ours.ids[2]);
    assert!(is_it, "{failed}");
    served.client.deregister_memory(served.ours.ids[0]).expect("nothing uses it");
    // The first part, too: nothing is posted, so the call says it.
    let refused = write.post(None).expect_err("no part has memory");
    assert!(matches!(refused, Error::UnknownRegistration { id } if id == served.ours.ids[0]));
    let counts = write.counts().expect("no fork");
    assert_eq!((counts.operations_posted, counts.operations_done), (1, 1));
}

#[test]
fn it_ends_when_its_time_is_over() {
    let served = Served::new();
    let write = served.prepare(OperationKind::Write);
    write.report_completions(3).expect("no fork");
    let time = Duration::from_millis(200);
    for note in [None, Some(&b"late"[..])] {
        served.signal(Signal::STOP);
        let mut options = PostOptions::default().timeout(time);
        options.notification = note;
        write.post_with(options).expect("it is not under way");
        let expired = write.wait(PATIENCE).expect_err("nobody answers");
        let is_it = matches!(&expired, Error::Expired { peer: Some(peer), after }
            if *after == time && peer.starts_with("server"));
        assert!(is_it, "{expired}");
        let mut told = Vec::new();
        until("its end is told", || {
            served.client.poll_completions(&mut told, 1).expect("no fork") == 1
        });
        assert!(matches!(told[0].result, Err(Error::Expired { .. })));
        served.signal(Signal::CONT);
        // With time enough it goes well, and the notification waits no longer than the rest.
        write.post_with(PostOptions::default().timeout(Duration::from_secs(60))).expect("it ended");
        write.wait(PATIENCE).expect("it goes well");
        until("its end is told", || {
            served.client.poll_completions(&mut told, 1).expect("no fork") == 1
        });
    }
    assert_eq!(write.counts().expect("no fork").operations_done, 4);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digits).collect()
}
