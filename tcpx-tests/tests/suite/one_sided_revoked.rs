//! Revocation of exported memory while peers use it.

use std::time::Duration;

use tcpx_core::{
    Error, MemoryRange, MemoryType, OperationKind, RemoteProblem, RemoteRange, Session,
};
use tcpx_testkit::{PATIENCE, scaled, until};
use tcpx_tests::sessions::{connect, contents, drop_all, export, lively, memory, open, pair, soft};

use crate::one_sided::{WAYS, run, sent_on_link};

#[test]
fn memory_that_is_not_exported_is_refused_and_nothing_moves() {
    let [left, right] = pair(lively());
    let here = memory(&left, MemoryType::Host, &[1; 100]);
    let there = memory(&right, MemoryType::Host, &[2; 100]);
    let key = export(&right, there);
    let local = [MemoryRange { memory: here, offset: 0, bytes: 100 }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: 100 }];
    let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("fits");
    run(&write, None);
    right.unexport(&key).expect("nothing uses it");
    right.write_memory(there, 0, &[2; 100]).expect("nothing uses it");
    for note in [None, Some(&b"late"[..])] {
        write.post(note).expect("it is not under way");
        let refused = write.wait(Some(PATIENCE)).expect_err("it was taken back");
        assert!(
            matches!(&refused, Error::Remote { peer: Some(peer), problem: RemoteProblem::Revoked, .. } if peer == "right"),
            "{refused}"
        );
    }
    assert_eq!(contents(&right, there, 100), [2; 100]);
    let mut notes = Vec::new();
    assert_eq!(right.poll_notifications(&mut notes, 9).expect("no fork"), 0);
}

#[test]
fn memory_comes_back_from_a_peer_that_does_not_answer() {
    for deregisters in [false, true] {
        let short = scaled(Duration::from_millis(300));
        let [left, right] = [soft(), lively()]
            .map(|it| open(it.connect_channels(true).link_bytes(WAYS[0]).close_timeout(short)));
        connect(&left, &right);
        let bytes = 1_000_000;
        let here = memory(&left, MemoryType::Host, &vec![1; bytes]);
        let there = memory(&right, MemoryType::Host, &vec![2; bytes]);
        let key = export(&right, there);
        let local = [MemoryRange { memory: here, offset: 0, bytes: bytes as u64 }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: bytes as u64 }];
        let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("fits");
        write.post(None).expect("it is not under way");
        until("the request comes", || right.read_memory(there, 0, &mut [0]).is_err());
        match deregisters {
            true => right.deregister_memory(there).expect("it comes back"),
            false => right.unexport(&key).expect("it comes back"),
        }
        let gone = write.wait(Some(PATIENCE)).expect_err("it was ended");
        assert!(matches!(gone, Error::PeerGone { .. }), "{gone}");
        if !deregisters {
            assert!(contents(&right, there, bytes) == vec![2; bytes], "nothing was sent");
        }
    }
}

#[test]
fn memory_comes_back_at_once_from_a_write_on_the_link() {
    let [left, right] = [soft(), lively()].map(|it| open(it.link_bytes(WAYS[1])));
    connect(&left, &right);
    // Far more than all sockets hold.
    let bytes = 256 << 20;
    let here = left.allocate(bytes, MemoryType::Host).expect("memory");
    let there = right.allocate(bytes, MemoryType::Host).expect("memory");
    let key = export(&right, there);
    let local = [MemoryRange { memory: here, offset: 0, bytes }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes }];
    let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("fits");
    write.post(Some(b"never")).expect("it is not under way");
    until("bytes come", || {
        left.progress();
        right.stats().total.one_sided.link_bytes_received > 0
    });
    right.deregister_memory(there).expect("nothing to wait for");
    let refused = write.wait(Some(PATIENCE)).expect_err("it was taken back");
    assert!(matches!(refused, Error::Remote { problem: RemoteProblem::Revoked, .. }), "{refused}");
    assert!(sent_on_link(&left) < bytes, "all of it was sent");
    assert_eq!(right.poll_notifications(&mut Vec::new(), 9).expect("no fork"), 0);
    assert!(left.deregister_memory(here).is_ok(), "and the writer's is free");
    drop(write);
    drop_all([left, right]);
}

#[test]
fn memory_comes_back_from_writes_under_way() {
    for way in WAYS {
        let [left, right] = pair(lively().link_bytes(way));
        take_back_under_fire(&left, &right);
    }
}

fn take_back_under_fire(left: &Session, right: &Session) {
    let bytes = 8 << 20;
    for round in 0..10 {
        let here = memory(left, MemoryType::Host, &vec![1; bytes]);
        let there = memory(right, MemoryType::Device, &vec![2; bytes]);
        let key = export(right, there);
        let local = [MemoryRange { memory: here, offset: 0, bytes: bytes as u64 }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: bytes as u64 }];
        let kind = if round % 2 == 0 { OperationKind::Write } else { OperationKind::Read };
        let operation = left.prepare("right", kind, &local, &remote).expect("fits");
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                loop {
                    operation.post(None).expect("it is not under way");
                    if let Err(refused) = operation.wait(Some(PATIENCE)) {
                        break refused;
                    }
                }
            });
            while operation.counts().expect("no fork").operations_done < round {
                std::thread::yield_now();
            }
            right.unexport(&key).expect("what uses it is stopped");
            let poison = vec![3; bytes];
            right.write_memory(there, 0, &poison).expect("nothing uses it");
            let refused = refused.join().expect("no panic");
            let problem = matches!(refused, Error::Remote { problem: RemoteProblem::Revoked, .. });
            assert!(problem, "{refused}");
            assert!(contents(right, there, bytes) == poison, "it was written later");
        });
        drop(operation);
        left.deregister_memory(here).expect("nothing uses it");
        right.deregister_memory(there).expect("nothing uses it");
    }
}

#[test]
fn an_operation_under_way_ends_in_the_middle_when_its_memory_is_taken_back() {
    let bytes = 64 << 20;
    for (kind, memories) in [
        (OperationKind::Write, [MemoryType::Host, MemoryType::Host]),
        (OperationKind::Write, [MemoryType::Host, MemoryType::Device]),
        (OperationKind::Read, [MemoryType::Host, MemoryType::Host]),
        (OperationKind::Read, [MemoryType::Device, MemoryType::Host]),
    ] {
        // Nothing moves by itself.
        let [left, right] = pair(soft().link_bytes(WAYS[0]));
        let [here, there] = [(&left, memories[0]), (&right, memories[1])]
            .map(|(session, memory)| session.allocate(bytes, memory).expect("memory"));
        let key = export(&right, there);
        let local = [MemoryRange { memory: here, offset: 0, bytes }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes }];
        let operation = left.prepare("right", kind, &local, &remote).expect("fits");
        operation.post(None).expect("it is not under way");
        let moved = || {
            let report = left.stats().total;
            report.send.bytes + report.recv.bytes
        };
        while moved() == 0 {
            left.progress();
            right.progress();
        }
        std::thread::scope(|scope| {
            let taken_back = scope.spawn(|| right.unexport(&key));
            let refused = operation.wait(Some(PATIENCE)).expect_err("it was taken back");
            let problem = matches!(refused, Error::Remote { problem: RemoteProblem::Revoked, .. });
            assert!(problem, "{kind:?}, {memories:?}: {refused}");
            taken_back.join().expect("no panic").expect("what uses it is stopped");
        });
        assert!(moved() < bytes, "{kind:?}, {memories:?}: all has moved");
        drop(operation);
        drop_all([left, right]);
    }
}
