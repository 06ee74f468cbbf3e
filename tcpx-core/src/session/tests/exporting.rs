#![allow(unsafe_code)]
//! Tests of keys to a session's memory, and of revoking them.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::exports::exported_range::ExportKey;
use tcpx_testkit::PATIENCE;

use super::{connect, connected, open, part, patient, soft, take_turns, uses};
use crate::error::{Phase, PluginHang, RegistrationProblem};
use crate::plugin::registrations::stage::PendingDeregistration;
use crate::settings::LinkBytes;
use crate::workers::JobStep;
use crate::{
    Access, Departure, Error, ExportOptions, MemoryId, MemoryRange, MemoryType, OperationKind,
    OperationStatus, RemoteAccess, RemoteKey, RemoteRange, Session,
};

const READ: ExportOptions =
    ExportOptions { access: RemoteAccess::Read, offset: 0, bytes: None, is_stable: false };

fn lent(session: &Session, access: Access) -> MemoryId {
    session.register_buffer(vec![0; 100], access).expect("it fits")
}

/// Begins to use the memory of a key, as a peer of the session would.
fn begin(session: &Session, key: &RemoteKey) -> Arc<[ExportKey]> {
    let mut engine = session.shared.engine().expect("no fork");
    let exports = &mut engine.resources.ledger.exports;
    let export = exports.open(key.export, &key.secret).expect("it is exported");
    let uses = Arc::from([export]);
    exports.begin_all(&uses).expect("it is exported");
    uses
}

fn end(session: &Session, uses: &[ExportKey]) {
    session.shared.engine().expect("no fork").resources.ledger.exports.end_all(uses);
    session.shared.wake();
}

/// Returns whether peers can begin to use the memory of a key.
fn is_open(session: &Session, key: &RemoteKey) -> bool {
    let engine = session.shared.engine().expect("no fork");
    engine.resources.ledger.exports.open(key.export, &key.secret).is_ok()
}

fn problem(refused: Result<(), Error>) -> RemoteProblem {
    match refused {
        Err(Error::Remote { peer: None, problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_leads_to_the_range_that_was_asked_for_and_is_never_given_twice() {
    let session = open(patient());
    let memory = lent(&session, Access::ReadWrite);
    let start = session.memory_info(memory).expect("it is there").address;
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let whole = session.export(memory, options).expect("it may be");
    assert_eq!((whole.address(), whole.bytes()), (start, 100));
    assert_eq!((whole.memory(), whole.access()), (MemoryType::Host, RemoteAccess::ReadWrite));
    let part = session.export(memory, options.range(90, 10)).expect("it may be");
    assert_eq!((part.address(), part.bytes()), (start + 90, 10));
    let rest = session.export(memory, ExportOptions { offset: 60, ..READ }).expect("it may be");
    assert_eq!((rest.bytes(), rest.access()), (40, RemoteAccess::Read));

    let mut seen = HashSet::new();
    for _ in 0..100 {
        let key = session.export(memory, READ).expect("it may be");
        assert!(seen.insert((key.export, key.secret.to_wire())));
        let secrets: HashSet<_> = seen.iter().map(|(_, secret)| secret).collect();
        assert_eq!(secrets.len(), seen.len());
        session.unexport(&key).expect("it is unused");
    }
}

#[test]
fn what_cannot_be_exported_is_refused_by_name() {
    let session = open(patient());
    let memory = lent(&session, Access::ReadOnly);
    let refused = |options| match session.export(memory, options) {
        Err(Error::Registration { id: Some(id), problem }) if id == memory => problem,
        other => panic!("{other:?}"),
    };
    for access in [RemoteAccess::Write, RemoteAccess::ReadWrite] {
        assert_eq!(refused(ExportOptions::new(access)), RegistrationProblem::ReadOnly);
    }
    assert_eq!(refused(READ.range(0, 0)), RegistrationProblem::Empty);
    assert_eq!(refused(ExportOptions { offset: 100, ..READ }), RegistrationProblem::Empty);
    for (offset, bytes) in [(0, 101), (100, 1), (1, u64::MAX), (u64::MAX, 1), (101, 0)] {
        let past_end = RegistrationProblem::OutOfBounds { offset, bytes, registered_bytes: 100 };
        assert_eq!(refused(READ.range(offset, bytes)), past_end);
    }
    let gone = MemoryId::after(99);
    let refused = session.export(gone, READ);
    assert!(matches!(refused, Err(Error::UnknownRegistration { id }) if id == gone));
    session.close().expect("it has no peers");
    assert!(matches!(session.export(memory, READ), Err(Error::Closed)));
}

#[test]
fn only_a_key_of_this_session_that_was_not_taken_back_is_taken_back() {
    let (left, right) = (open(patient()), open(patient()));
    let memory = lent(&left, Access::ReadOnly);
    let key = left.export(memory, READ).expect("it may be");
    assert_eq!(problem(right.unexport(&key)), RemoteProblem::AnotherSession);
    let forged = RemoteKey {
        secret: tcpx_protocol::exports::capability::ExportSecret::new([0; 16]),
        ..key.clone()
    };
    assert_eq!(problem(left.unexport(&forged)), RemoteProblem::UnknownKey);
    assert!(is_open(&left, &key), "nothing was taken back");
    let read = RemoteKey::deserialize(&key.serialize()).expect("own bytes");
    left.unexport(&read).expect("it is unused");
    assert!(!is_open(&left, &key));
    assert_eq!(problem(left.unexport(&key)), RemoteProblem::Revoked);
}

#[test]
fn memory_that_is_taken_back_takes_its_keys_along() {
    let session = open(patient());
    let (memory, other) = (lent(&session, Access::ReadOnly), lent(&session, Access::ReadOnly));
    let keys = [(); 3].map(|()| session.export(memory, READ).expect("it may be"));
    let stays = session.export(other, READ).expect("it may be");
    session.take_buffer(memory).expect("it is unused");
    for key in &keys {
        assert_eq!(problem(session.unexport(key)), RemoteProblem::Revoked);
    }
    session.unexport(&stays).expect("it is there");
}

#[test]
fn a_stable_key_opens_the_same_memory_whenever_it_is_exported() {
    // The session goes first.
    let mut memory = vec![0_u8; 64];
    let session = open(patient());
    let stable = ExportOptions::new(RemoteAccess::ReadWrite).stable(true);
    let mut register = || {
        let address = crate::MemoryAddress::from_ptr(memory.as_mut_ptr());
        // SAFETY: the bytes outlive the session, and no other code uses them.
        unsafe { session.register_memory(address, 64, MemoryType::Host, Access::ReadWrite) }
            .expect("it fits")
    };
    let first_id = register();
    let key = session.export(first_id, stable).expect("it may be");
    session.deregister_memory(first_id).expect("it is unused");
    assert!(!is_open(&session, &key));
    let second_id = register();
    let again = session.export(second_id, stable).expect("it may be");
    assert_eq!(again.serialize(), key.serialize());
    assert!(is_open(&session, &key));
    let elsewhere = session.export(second_id, stable.range(0, 63)).expect("it may be");
    assert_ne!((elsewhere.export, elsewhere.secret), (key.export, key.secret));
}

#[test]
fn taking_back_waits_until_no_peer_uses_it() {
    let session = open(patient());
    let memory = lent(&session, Access::ReadOnly);
    let key = session.export(memory, READ).expect("it may be");
    let uses = begin(&session, &key);
    thread::scope(|scope| {
        let unexported = scope.spawn(|| session.unexport(&key));
        while is_open(&session, &key) {
            thread::yield_now();
        }
        assert!(!unexported.is_finished(), "a peer uses it");
        end(&session, &uses);
        unexported.join().expect("no panic").expect("it is unused");
    });

    let key = session.export(memory, READ).expect("it may be");
    let uses = begin(&session, &key);
    thread::scope(|scope| {
        let deregistered = scope.spawn(|| session.deregister_memory(memory));
        while is_open(&session, &key) {
            thread::yield_now();
        }
        assert!(session.memory_info(memory).is_ok(), "a peer uses it");
        end(&session, &uses);
        deregistered.join().expect("no panic").expect("it is unused");
    });
    assert!(session.memory_info(memory).is_err());
}

#[test]
fn memory_that_nothing_lets_go_of_stays_and_can_be_deregistered_later() {
    let mut session = open(soft());
    session.release_timeout = Duration::from_millis(1);
    let memory = lent(&session, Access::ReadWrite);
    let key = session.export(memory, READ).expect("it may be");
    let uses = begin(&session, &key);
    let in_use = |outcome: Result<(), Error>| match outcome {
        Err(Error::InUse { id, operations: 1, .. }) => assert_eq!(id, memory),
        other => panic!("{other:?}"),
    };
    in_use(session.write_memory(memory, 0, b"x"));
    in_use(session.read_memory(memory, 0, &mut [0]));
    in_use(session.unexport(&key));
    in_use(session.deregister_memory(memory));
    in_use(session.take_buffer(memory).map(drop));
    assert!(session.memory_info(memory).is_ok(), "it is still there");
    for refused in [
        session.export(memory, READ).map(drop),
        session.write_memory(memory, 0, b"x"),
        session.read_memory(memory, 0, &mut [0]),
    ] {
        let problem = RegistrationProblem::Deregistered;
        assert!(
            matches!(&refused, Err(Error::Registration { id: Some(id), problem: it }) if *id == memory && *it == problem),
            "{refused:?}"
        );
    }
    end(&session, &uses);
    session.take_buffer(memory).expect("nothing uses it");
    let gone = session.deregister_memory(memory);
    assert!(matches!(gone, Err(Error::UnknownRegistration { id }) if id == memory), "{gone:?}");
}

/// A comm is slow to forget the memory.
#[test]
fn memory_stays_known_until_every_comm_has_forgotten_it() {
    let mut session = open(patient());
    session.release_timeout = Duration::from_millis(1);
    let memory = lent(&session, Access::ReadWrite);
    let (go_on, goes_on) = mpsc::channel::<()>();
    let mut engine = session.shared.engine().expect("no fork");
    let returned = engine.resources.workers.run(move || {
        let _ = goes_on.recv();
        JobStep::Done
    });
    let (peer, nic) = ("far".to_owned(), "eth1".to_owned());
    let (call, phase, channel, waited) = ("deregMr", Phase::Register, 3, Duration::from_millis(1));
    let hang = PluginHang { call, phase, peer, channel, nic, waited, returns: false, found: None };
    let registrations = &mut engine.resources.ledger.registrations;
    let key = registrations.begin_draining(memory).expect("it is there");
    registrations.set_pending_deregistration(key, PendingDeregistration { returned, hang });
    drop(engine);
    for _ in 0..2 {
        let hangs = session.deregister_memory(memory);
        assert!(matches!(&hangs, Err(Error::PluginHangs(hang)) if hang.peer == "far"), "{hangs:?}");
        assert!(session.memory_info(memory).is_ok(), "its id remains");
    }
    drop(go_on);
    session.release_timeout = PATIENCE;
    session.take_buffer(memory).expect("it is forgotten now");
    assert!(session.memory_info(memory).is_err());
}

#[test]
fn keys_are_revoked_before_anything_else_ends() {
    let mut right = open(soft().connect_channels(true));
    right.release_timeout = Duration::from_millis(1);
    let left = open(patient());
    connect(&left, &right);
    let memory = lent(&right, Access::ReadWrite);
    let key = right.export(memory, READ).expect("it may be");
    let receive = right.create_transfer("left").expect("it is up");
    let post = crate::Post { memory, offset: 0, bytes: 100, tag: 1 };
    receive.post_recv(post).expect("it fits");
    right.shared.engine().expect("no fork").start_deregistering(memory).expect("it is there");
    assert!(!is_open(&right, &key) && uses(&right, memory) == 1, "left has not agreed");
    // Left makes no progress, and is ended.
    right.deregister_memory(memory).expect("nothing uses it");
    let error = receive.is_complete().expect_err("its peer has ended");
    let kept = |error: &Error| {
        matches!(error, Error::PeerGone { how: Departure::KeptMemory(_), .. } | Error::Cancelled)
    };
    assert!(kept(&error), "{error}");
    assert_eq!(right.stats().peers[0].state, "gone");
    // The session closes the peer's comms, and leaves nothing behind, however long that takes.
    right.release_timeout = PATIENCE;
}

/// On a GPU the program's own copies go on without the lock.
#[test]
fn requests_of_peers_wait_for_a_copy_to_or_from_the_memory() {
    // No peer answers a goodbye: the sessions are dropped one after the other.
    let [left, right] = connected(soft());
    let [here, there] = [&left, &right].map(|it| lent(it, Access::ReadWrite));
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(there, options).expect("it may be");
    let local = [MemoryRange { memory: here, offset: 0, bytes: 100 }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: 100 }];
    for kind in [OperationKind::Write, OperationKind::Read] {
        let mut engine = right.shared.engine().expect("no fork");
        let registrations = &engine.resources.ledger.registrations;
        let span = registrations.span(there, 0, 1, Access::ReadOnly).expect("it fits");
        engine.begin_copy(there, span.registration).expect("nothing uses it");
        drop(engine);
        let operation = left.prepare("right", kind, &local, &remote).expect("it fits");
        operation.post(None).expect("it is not under way");
        for _ in 0..1000 {
            left.progress();
            right.progress();
        }
        assert!(matches!(operation.status(), OperationStatus::Active));
        let is_idle = right.shared.engine().expect("no fork").resources.ledger.uses(there) == 0;
        assert!(is_idle, "{kind:?}");
        right.shared.engine().expect("no fork").end_copy(there, span.registration);
        while matches!(operation.status(), OperationStatus::Active) {
            left.progress();
            right.progress();
        }
        assert!(matches!(operation.status(), OperationStatus::Done));
    }
}

/// A segment of its own costs a trip through the system at both ends. The loopback's have up to 64
/// KiB.
#[test]
fn the_frame_of_a_write_leaves_in_one_segment_with_its_first_bytes() {
    const WRITES: u32 = 50;
    const BYTES: u64 = 100_000;
    let [left, right] = connected(patient().link_bytes(LinkBytes::Most(u64::MAX)));
    let [here, there] = [&left, &right]
        .map(|session| session.allocate(BYTES, MemoryType::Host).expect("there is room"));
    let key = right.export(there, ExportOptions::new(RemoteAccess::ReadWrite)).expect("it is");
    let local = [MemoryRange { memory: here, offset: 0, bytes: BYTES }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: BYTES }];
    let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("they fit");
    let sent = || {
        let engine = left.shared.engine().expect("no fork");
        let (_, peer) = engine.peer("right").expect("it is known");
        peer.connection().expect("it is up").segments_sent_on_link()
    };
    let run = || {
        write.post(None).expect("it is not under way");
        let is_over = || matches!(write.status(), OperationStatus::Done);
        take_turns(&[&left, &right], "the write", is_over);
    };
    // The peer learns the lists with the first one.
    run();
    let before = sent();
    (0..WRITES).for_each(|_| run());
    let segments = sent() - before;
    assert!((2 * WRITES..2 * WRITES + 10).contains(&segments), "{segments} segments");
    drop(write);
    part(&left, &right);
}
