//! Operations and notifications that are posted before their peer is up: the first connects it.

use std::time::Duration;

use tcpx_core::{
    Error, MemoryId, MemoryRange, Operation, OperationKind, OperationStatus, PeerState, RemoteKey,
    RemoteProblem, RemoteRange, Session, SessionOptions,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{export, lively, notifications, open, soft};

const BYTES: usize = 100_000;

/// Memory that is full of a byte.
fn memory(session: &Session, byte: u8) -> MemoryId {
    session.register_buffer(vec![byte; BYTES], tcpx_core::Access::ReadWrite).expect("memory")
}

fn write(session: &Session, here: MemoryId, key: &RemoteKey) -> Operation {
    let local = [MemoryRange { memory: here, offset: 0, bytes: BYTES as u64 }];
    let remote = [RemoteRange { key, offset: 0, bytes: BYTES as u64 }];
    session.prepare("target", OperationKind::Write, &local, &remote).expect("it is known")
}

/// A session that knows the way to another, which listens and does nothing.
fn before_a_silent_target(options: SessionOptions) -> (Session, Session, RemoteKey) {
    let target = open(soft());
    let initiator = open(options);
    let info = target.listen().expect("listen");
    initiator.load_remote_conn_info("target", &info).expect("own bytes load");
    let key = export(&target, memory(&target, 0));
    (initiator, target, key)
}

#[test]
fn the_first_post_connects_its_peer() {
    for notifies_first in [false, true] {
        let target = open(lively().accept_all(true));
        let there = memory(&target, 0);
        let key = export(&target, there);
        let initiator = open(lively().name("initiator"));
        let info = target.listen().expect("listen");
        initiator.load_remote_conn_info("target", &info).expect("own bytes load");
        let here = memory(&initiator, 7);
        let writes = [write(&initiator, here, &key), write(&initiator, here, &key)];
        assert!(matches!(initiator.peer_state("target"), Err(Error::UnknownPeer { .. })));
        if notifies_first {
            initiator.notify("target", b"hello").expect("it waits");
        }
        for write in &writes {
            write.post(Some(b"written")).expect("it waits");
            let again = write.post(None).expect_err("it is under way");
            assert!(matches!(again, Error::PeerState { .. }), "{again}");
        }
        for write in &writes {
            write.wait(Some(PATIENCE)).expect("the peer comes up");
        }
        let notes = notifications(&target, 2 + usize::from(notifies_first));
        assert!(notes.iter().all(|note| note.peer == "initiator"), "{notes:?}");
        let hellos = notes.iter().filter(|note| note.bytes == b"hello").count();
        assert_eq!(hellos, usize::from(notifies_first));
        assert_eq!(target.stats().peers.len(), 1, "one connection for all");
        drop(writes);
        assert!(*target.take_buffer(there).expect("nothing uses it") == [7; BYTES]);
    }
}

#[test]
fn an_operation_ends_with_the_error_of_its_connect() {
    let gone = open(soft());
    let info = gone.listen().expect("listen");
    let key = export(&gone, memory(&gone, 0));
    drop(gone);
    let initiator = open(lively());
    initiator.load_remote_conn_info("target", &info).expect("own bytes load");
    let here = memory(&initiator, 7);
    let write = write(&initiator, here, &key);
    for round in 1..=2 {
        write.post(None).expect("each post tries again");
        let error = write.wait(Some(PATIENCE)).expect_err("no listener there");
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert_eq!(write.counts().expect("no fork").operations_done, round);
    }
    initiator.take_buffer(here).expect("nothing uses it");
}

#[test]
fn an_operation_ends_with_a_connect_that_takes_too_long() {
    let impatient = lively().connect_timeout(Duration::from_millis(300));
    let (initiator, _target, key) = before_a_silent_target(impatient);
    let write = write(&initiator, memory(&initiator, 7), &key);
    write.post(None).expect("it waits");
    let error = write.wait(Some(PATIENCE)).expect_err("no answer from there");
    assert!(matches!(&error, Error::PeerGone { peer, .. } if peer == "target"), "{error}");
    let state = initiator.peer_state("target").expect("it was tried");
    assert!(matches!(state, PeerState::Failed(Error::Deadline { .. })), "{state:?}");
}

#[test]
fn operations_that_wait_for_a_peer_are_cancelled() {
    let (initiator, _target, key) = before_a_silent_target(lively());
    let here = memory(&initiator, 7);
    let [cancelled, dropped, left] = [(); 3].map(|()| write(&initiator, here, &key));
    for write in [&cancelled, &dropped, &left] {
        write.post(None).expect("it waits");
        assert!(matches!(write.status(), OperationStatus::Active));
    }
    let full = (0..).find_map(|_| initiator.notify("target", &[0; 60_000]).err());
    assert!(matches!(full, Some(Error::NotificationsFull { .. })), "{full:?}");
    cancelled.cancel().expect("no fork");
    let error = cancelled.wait(Some(PATIENCE)).expect_err("it was given up");
    assert!(matches!(error, Error::Cancelled), "{error}");
    drop(dropped);
    initiator.disconnect("target").expect("the peer has gone");
    let error = left.wait(Some(PATIENCE)).expect_err("its peer was left");
    assert!(matches!(error, Error::Closed), "{error}");
    initiator.deregister_memory(here).expect("nothing uses it");
}

#[test]
fn a_key_of_another_session_is_refused_before_the_connect() {
    let (initiator, _target, _) = before_a_silent_target(lively());
    let other = open(soft());
    let key = export(&other, memory(&other, 0));
    let here = memory(&initiator, 7);
    let local = [MemoryRange { memory: here, offset: 0, bytes: 1 }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: 1 }];
    for (peer, is_known) in [("target", true), ("unknown", false)] {
        let refused = initiator.prepare(peer, OperationKind::Write, &local, &remote);
        match refused.expect_err("it is no peer's") {
            Error::Remote { problem: RemoteProblem::AnotherSession, .. } if is_known => {}
            Error::UnknownPeer { .. } if !is_known => {}
            error => panic!("{error}"),
        }
    }
    assert!(initiator.stats().peers.is_empty());
}
