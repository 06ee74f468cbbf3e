//! Groups: the host and GPUs of a process as one, for operations on memory of peers. Ordinary
//! memory stands in for GPUs.

mod another_process;

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_core::{
    Access, CudaError, Device, Error, ExportOptions, MemoryId, MemoryRange, MemoryUnavailable,
    Notification, Operation, OperationKind, RemoteAccess, RemoteKey, RemoteProblem, RemoteRange,
    Session, SessionOptions, SettingProblem,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::soft;
use tcpx_wire::sealed::{DIGEST_BYTES, Envelope, HEADER_BYTES};

const DEVICES: [Device; 3] = [Device::Host, Device::Gpu(0), Device::Gpu(1)];

fn options() -> SessionOptions {
    soft().emulated_gpus(2)
}

fn group(name: &str) -> Session {
    Session::new(options().name(name).all_devices(true))
        .expect("the software plugin is always there")
}

/// Two groups; the first has the connection info of the second.
fn pair() -> [Session; 2] {
    let (left, right) = (group("left"), group("right"));
    let info = right.listen().expect("listen");
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    [left, right]
}

/// Memory of a device that is full of a byte.
fn memory(group: &Session, device: Device, byte: u8, bytes: usize) -> MemoryId {
    let memory = group.allocate(bytes as u64, device).expect("memory");
    group.write_memory(memory, 0, &vec![byte; bytes]).expect("nothing uses it");
    memory
}

fn export(group: &Session, memory: MemoryId) -> RemoteKey {
    group.export(memory, ExportOptions::new(RemoteAccess::ReadWrite)).expect("it is registered")
}

fn is_full_of(group: &Session, memory: MemoryId, byte: u8, bytes: usize) -> bool {
    let mut contents = vec![!byte; bytes];
    group.read_memory(memory, 0, &mut contents).expect("nothing uses it");
    contents == vec![byte; bytes]
}

fn prepare(
    group: &Session,
    peer: &str,
    kind: OperationKind,
    memory: MemoryId,
    key: &RemoteKey,
) -> Result<Operation, Error> {
    let local = [MemoryRange { memory, offset: 0, bytes: key.bytes() }];
    group.prepare(peer, kind, &local, &[RemoteRange { key, offset: 0, bytes: key.bytes() }])
}

fn run(operation: &Operation, note: Option<&[u8]>) {
    operation.post(note).expect("it is not under way");
    operation.wait(Some(PATIENCE)).expect("it succeeds");
}

fn notification(group: &Session) -> Notification {
    let give_up_at = Instant::now() + PATIENCE;
    let mut taken = Vec::new();
    while group.poll_notifications(&mut taken, 1).expect("no fork") == 0 {
        assert!(Instant::now() < give_up_at, "no notification comes");
        std::thread::yield_now();
    }
    taken.remove(0)
}

/// The key to memory of another device of the same group, with everything else as it was.
fn key_of(key: &RemoteKey, device_number: u8) -> RemoteKey {
    let bytes = key.serialize();
    let mut body = bytes[HEADER_BYTES..bytes.len() - DIGEST_BYTES].to_vec();
    // The last two bytes of the session's id.
    body[14..16].copy_from_slice(&[device_number, 0]);
    let sealed = Envelope { magic: *b"TCPXRKEY", version: 1 }.seal(&body);
    RemoteKey::deserialize(&sealed).expect("it is one")
}

fn connections(group: &Session) -> usize {
    group.stats_by_device().iter().map(|(_, session)| session.peers.len()).sum()
}

#[test]
fn bytes_move_between_all_devices_of_two_groups() {
    let [left, right] = pair();
    for here in DEVICES {
        for there in DEVICES {
            for bytes in [100, 20_000, 600_001] {
                let (ours, theirs) =
                    (memory(&left, here, 1, bytes), memory(&right, there, 2, bytes));
                assert_eq!((ours.device(), theirs.device()), (here, there));
                let key = export(&right, theirs);
                let write = prepare(&left, "right", OperationKind::Write, ours, &key);
                let read = prepare(&left, "right", OperationKind::Read, ours, &key);
                let (write, read) = (write.expect("it fits"), read.expect("it fits"));
                run(&write, Some(b"written"));
                let note = notification(&right);
                assert_eq!((note.peer.as_str(), &note.bytes[..]), ("left", &b"written"[..]));
                assert!(is_full_of(&right, theirs, 1, bytes), "{here} to {there}, {bytes}");
                right.write_memory(theirs, 0, &vec![3; bytes]).expect("nothing uses it");
                run(&read, None);
                assert!(is_full_of(&left, ours, 3, bytes), "{there} to {here}, {bytes}");
                drop((write, read));
                right.unexport(&key).expect("nothing uses it");
                left.deregister_memory(ours).expect("nothing uses it");
                right.deregister_memory(theirs).expect("nothing uses it");
            }
        }
    }
    assert_eq!(
        left.stats_by_device().iter().map(|(device, _)| *device).collect::<Vec<_>>(),
        DEVICES
    );
    assert_eq!((connections(&left), connections(&right)), (9, 9), "one for each pair");
    let left_there =
        right.stats_by_device().iter().flat_map(|(_, session)| session.peers.clone()).count();
    assert_eq!(left_there, 9);

    // The other way round over the same connections, though right does not know where left is.
    let ours = memory(&right, Device::Gpu(1), 4, 1000);
    let theirs = memory(&left, Device::Gpu(0), 5, 1000);
    let key = export(&left, theirs);
    let write = prepare(&right, "left", OperationKind::Write, ours, &key).expect("it is there");
    run(&write, Some(b"back"));
    assert_eq!(notification(&left).peer, "right");
    assert_eq!((connections(&left), connections(&right)), (9, 9));
    right.notify("left", b"1").expect("it is up");
    right.notify("left", b"2").expect("it is up");
    assert_eq!([notification(&left).bytes, notification(&left).bytes], [b"1", b"2"]);
    left.disconnect("right").expect("all say goodbye");
    assert_eq!(connections(&left), 0);
}

#[test]
fn two_groups_may_connect_to_each_other() {
    let [left, right] = pair();
    right.load_remote_conn_info("other", &left.listen().expect("listen")).expect("own bytes load");
    let [to_right, to_left] = [(&left, "right"), (&right, "other")].map(|(group, peer)| {
        let here = memory(group, Device::Gpu(0), 1, 100_000);
        let to = if peer == "right" { &right } else { &left };
        let there = memory(to, Device::Gpu(0), 2, 100_000);
        prepare(group, peer, OperationKind::Write, here, &export(to, there)).expect("it is known")
    });
    std::thread::scope(|scope| {
        for (group, peer, write) in [(&left, "right", &to_right), (&right, "other", &to_left)] {
            scope.spawn(move || {
                group.connect(peer).expect("it is there");
                run(write, Some(b"at once"));
            });
        }
    });
    // Right has the connection info of left, so this is its name for the peer that comes from
    // there.
    assert_eq!(
        (notification(&left).peer, notification(&right).peer),
        ("right".into(), "other".into())
    );
    assert_eq!((connections(&left), connections(&right)), (2, 2), "hosts, and first GPUs");
}

#[test]
fn a_group_reaches_itself() {
    let group = group("me");
    group.load_remote_conn_info("me", &group.listen().expect("listen")).expect("own bytes load");
    for here in DEVICES {
        for there in DEVICES {
            let (ours, theirs) =
                (memory(&group, here, 1, 50_000), memory(&group, there, 2, 50_000));
            let key = export(&group, theirs);
            let write = prepare(&group, "me", OperationKind::Write, ours, &key).expect("it fits");
            run(&write, Some(b"hello"));
            assert_eq!(notification(&group).bytes, b"hello");
            assert!(is_full_of(&group, theirs, 1, 50_000), "{here} to {there}");
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let [left, right] = pair();
    let no_gpu = |error: Error| match error {
        Error::MemoryUnavailable(MemoryUnavailable::Cuda(error)) => {
            assert!(matches!(error, CudaError::NoSuchGpu { gpu: 2, count: 2 }), "{error}");
        }
        error => panic!("{error}"),
    };
    no_gpu(left.allocate(1, Device::Gpu(2)).expect_err("there are two"));

    // At the other end; and where the other end is no group.
    let alone = Session::new(options().progress_thread(true).accept_all(true)).expect("soft");
    let info = alone.listen().expect("listen");
    left.load_remote_conn_info("alone", &info).expect("own bytes load");
    let lone = alone.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    let lone = alone.export(lone, ExportOptions::new(RemoteAccess::Write)).expect("registered");
    let here = memory(&left, Device::Gpu(0), 1, 8);
    let key = export(&right, memory(&right, Device::Host, 0, 8));
    for (peer, key, word) in [("right", &key, "gpu6 cannot"), ("alone", &lone, "of one device")] {
        let there = key_of(key, 7);
        let write = prepare(&left, peer, OperationKind::Write, here, &there).expect("who knows");
        write.post(None).expect("it waits");
        let refused = write.wait(Some(PATIENCE)).expect_err("it is not there");
        assert!(
            matches!(&refused, Error::Handshake { peer: device, .. }
            if *device == format!("{peer}/gpu6")),
            "{refused}"
        );
        assert!(refused.to_string().contains(word), "{refused}");
    }
    // A session of one device is a peer like any other.
    let write = prepare(&left, "alone", OperationKind::Write, here, &lone).expect("it is known");
    run(&write, None);
    left.deregister_memory(here).expect("nothing uses it");
}

#[test]
fn ranges_and_names_that_no_group_has_are_refused() {
    let [left, right] = pair();
    let here = DEVICES.map(|device| memory(&left, device, 1, 8));
    let keys = DEVICES.map(|device| export(&right, memory(&right, device, 2, 8)));
    let unknown = prepare(&left, "unknown", OperationKind::Write, here[1], &keys[1]);
    assert!(matches!(unknown, Err(Error::UnknownPeer { .. })));
    let other = group("other");
    let (gone, key) = (memory(&other, Device::Gpu(1), 1, 8), export(&left, here[0]));
    let unregistered = prepare(&right, "right", OperationKind::Write, gone, &key);
    assert!(
        matches!(unregistered, Err(Error::UnknownRegistration { id }) if id == gone)
            || matches!(unregistered, Err(Error::UnknownPeer { .. }))
    );
    assert!(matches!(
        left.take_buffer(gone),
        Err(Error::UnknownRegistration { .. }) | Err(Error::Registration { .. })
    ));
    let not_ours = left.unexport(&keys[1]).expect_err("it is right's");
    assert!(matches!(not_ours, Error::Remote { problem: RemoteProblem::AnotherSession, .. }));
    let info = right.listen().expect("listen");
    for (name, is_long) in [("a/gpu0", false), (&*"x".repeat(56), true)] {
        let refused = left.load_remote_conn_info(name, &info).expect_err("it is no name");
        match refused {
            Error::Setting { problem: SettingProblem::TooLong { .. }, .. } if is_long => {}
            Error::Setting { problem: SettingProblem::NameOfDevice, .. } if !is_long => {}
            error => panic!("{error}"),
        }
    }
}

/// Right takes memory of a GPU back while left writes it again and again.
#[test]
fn memory_of_a_gpu_comes_back_from_writes_under_way() {
    let [left, right] = pair();
    const BYTES: usize = 4 << 20;
    for deregisters in [false, true] {
        let here = memory(&left, Device::Gpu(0), 1, BYTES);
        let there = memory(&right, Device::Gpu(1), 2, BYTES);
        let key = export(&right, there);
        let write = prepare(&left, "right", OperationKind::Write, here, &key).expect("it fits");
        run(&write, None);
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                loop {
                    write.post(None).expect("it is not under way");
                    if let Err(refused) = write.wait(Some(PATIENCE)) {
                        break refused;
                    }
                }
            });
            while write.counts().expect("no fork").operations_done < 3 {
                std::thread::yield_now();
            }
            match deregisters {
                true => right.deregister_memory(there).expect("what uses it is stopped"),
                false => {
                    right.unexport(&key).expect("what uses it is stopped");
                    right.write_memory(there, 0, &vec![3; BYTES]).expect("nothing uses it");
                }
            }
            let refused = refused.join().expect("no panic");
            let is_revoked = matches!(&refused, Error::Remote {
                peer: Some(peer), problem: RemoteProblem::Revoked, ..
            } if peer == "right/gpu1");
            assert!(is_revoked, "{refused}");
        });
        if !deregisters {
            assert!(is_full_of(&right, there, 3, BYTES), "it was written later");
        }
    }
}

#[test]
fn a_group_that_closes_ends_what_others_have_with_it() {
    let [left, right] = pair();
    let (here, there) = (memory(&left, Device::Gpu(1), 1, 8), memory(&right, Device::Gpu(0), 2, 8));
    let key = export(&right, there);
    let write = prepare(&left, "right", OperationKind::Write, here, &key).expect("it fits");
    run(&write, None);
    right.close().expect("left answers");
    assert!(right.is_settled());
    for answer in [
        right.allocate(1, Device::Gpu(1)).map(drop),
        right.listen().map(drop),
        right.notify("left", b""),
    ] {
        let closed = answer.expect_err("it is closed");
        assert!(matches!(closed, Error::Closed), "{closed}");
    }
    right.close().expect("again");
    let give_up_at = Instant::now() + PATIENCE;
    let gone = loop {
        // The goodbye may be on its way.
        match write.post(None).and_then(|()| write.wait(Some(PATIENCE))) {
            Err(gone) => break gone,
            Ok(()) => assert!(Instant::now() < give_up_at, "it goes on"),
        }
    };
    let is_named = matches!(&gone, Error::PeerGone { peer, .. } if peer == "right/gpu0");
    assert!(is_named, "{gone}");
}

#[test]
fn one_descriptor_signals_events_of_all_devices() {
    let [left, right] = pair();
    let key = export(&right, memory(&right, Device::Gpu(0), 2, 8));
    let writes = DEVICES.map(|device| {
        let here = memory(&left, device, 1, 8);
        prepare(&left, "right", OperationKind::Write, here, &key).expect("it fits")
    });
    let descriptor = left.event_fd().expect("descriptors");
    let mut completions = Vec::new();
    left.poll_completions(&mut completions, 9).expect("no fork");
    for (context, write) in (7..).zip(&writes) {
        write.report_completions(context).expect("no fork");
        write.post(Some(b"x")).expect("it waits");
        let give_up_at = Instant::now() + PATIENCE;
        while left.poll_completions(&mut completions, 1).expect("no fork") == 0 {
            assert!(Instant::now() < give_up_at, "no event in time");
            let mut entry = [PollFd::new(&descriptor, PollFlags::IN)];
            let time = Timespec { tv_sec: 10, tv_nsec: 0 };
            assert_eq!(poll(&mut entry, Some(&time)), Ok(1), "it becomes readable");
        }
        let completion = completions.pop().expect("one came");
        assert_eq!((completion.context, completion.result.is_ok()), (context, true));
        assert_eq!(notification(&right).bytes, b"x");
    }
}
