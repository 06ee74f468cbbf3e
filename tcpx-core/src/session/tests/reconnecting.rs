//! Tests of operations whose peer has ended, and is present again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_testkit::PATIENCE;

use super::{LOOPBACK, connect, connected, open, part, patient, take_turns, uses};
use crate::{
    Departure, Error, ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind,
    OperationStatus, PeerState, RemoteAccess, RemoteKey, RemoteProblem, RemoteRange, Session,
};

const BYTES: u64 = 1000;

fn exported(session: &Session) -> (MemoryId, RemoteKey) {
    let memory = session.allocate(BYTES, MemoryType::Host).expect("memory");
    let key = session.export(memory, ExportOptions::new(RemoteAccess::ReadWrite));
    (memory, key.expect("it is registered"))
}

fn prepare(session: &Session, memory: MemoryId, key: &RemoteKey) -> Operation {
    let local = [MemoryRange { memory, offset: 0, bytes: BYTES }];
    let remote = [RemoteRange { key, offset: 0, bytes: BYTES }];
    session.prepare("right", OperationKind::Write, &local, &remote).expect("it fits")
}

fn run(operation: &Operation) -> Result<(), Error> {
    operation.post(None)?;
    operation.wait(Some(PATIENCE))
}

#[test]
fn an_operation_is_posted_again_to_the_same_session() {
    let [left, right] = connected(patient().progress_thread(true));
    let (there, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    for round in 1..=3 {
        left.write_memory(memory, 0, &[round; BYTES as usize]).expect("nothing uses it");
        run(&operation).expect("it is up");
        let mut contents = [0; BYTES as usize];
        right.read_memory(there, 0, &mut contents).expect("nothing uses it");
        assert_eq!(contents, [round; BYTES as usize]);
        assert_eq!(left.stats().peers[0].one_sided.ranges_told, 1, "once on each connection");
        part(&left, &right);
        assert!(matches!(operation.status(), OperationStatus::Done), "as the last post ended");
        connect(&left, &right);
    }
}

/// Ends the connection with a peer as an error of this end does.
fn lose(session: &Session, name: &str) {
    let mut engine = session.shared.engine().expect("no fork");
    let (peer, _) = engine.peer(name).expect("it is up");
    engine.fail_peer(peer, Error::Cancelled);
}

fn is_lost(session: &Session, name: &str) -> bool {
    matches!(session.peer_state(name), Ok(PeerState::Failed(_)))
}

/// Sessions that accept each other, and have each other's connection info.
fn acquainted() -> [Session; 2] {
    let names = ["left", "right"];
    let sessions =
        names.map(|name| open(patient().progress_thread(true).accept_all(true).name(name)));
    for (from, to) in [(0, 1), (1, 0)] {
        let info = sessions[to].listen().expect("listen");
        sessions[from].load_remote_conn_info(names[to], &info).expect("own bytes load");
    }
    sessions
}

#[test]
fn a_post_connects_a_lost_peer_and_nothing_is_done_again() {
    let [left, right] = acquainted();
    let (there, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    run(&operation).expect("it is up");
    lose(&right, "left");
    take_turns(&[], "the end is known", || is_lost(&left, "right"));
    assert!(matches!(operation.status(), OperationStatus::Done), "as the last post ended");
    for round in 1..=2 {
        left.write_memory(memory, 0, &[round; BYTES as usize]).expect("nothing uses it");
        run(&operation).expect("it is connected again");
        let mut contents = [0; BYTES as usize];
        right.read_memory(there, 0, &mut contents).expect("nothing uses it");
        assert_eq!(contents, [round; BYTES as usize]);
    }
    assert_eq!(right.stats().total.one_sided.writes_served, 3, "one for each post");
}

#[test]
fn both_ends_of_a_lost_connection_go_on_over_one() {
    let sessions = acquainted();
    let [left, right] = &sessions;
    for _ in 0..10 {
        let notes = [(left, "right"), (right, "left")];
        thread::scope(|scope| {
            for (from, to) in notes {
                scope.spawn(move || {
                    from.notify(to, b"again").expect("its connection info is there")
                });
            }
        });
        for session in &sessions {
            let come = session.wait_notifications(&mut Vec::new(), 1, Some(PATIENCE));
            assert_eq!(come.expect("the peer comes up"), 1);
        }
        for (session, peer) in notes {
            let is_up = || matches!(session.peer_state(peer), Ok(PeerState::Up));
            take_turns(&[], "the peer is up", is_up);
            assert_eq!(session.stats().peers.len(), 1, "{:?}", session.stats().peers);
        }
        lose(left, "right");
        take_turns(&[], "the end is known", || is_lost(right, "left"));
    }
}

/// Relay that passes two connections on, and keeps the bytes of the first while it is held.
struct Relay {
    address: SocketAddr,
    is_held: Arc<(Mutex<bool>, Condvar)>,
}

impl Relay {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let is_held = Arc::<(Mutex<bool>, Condvar)>::default();
        let gate = Arc::clone(&is_held);
        thread::spawn(move || {
            for (number, from) in listener.incoming().take(2).enumerate() {
                let from = from.expect("a connection");
                let onward = TcpStream::connect(to).expect("the session listens");
                let gate = Arc::clone(&gate);
                let back = [&onward, &from].map(|end| end.try_clone().expect("a descriptor"));
                thread::spawn(move || copy(back, || {}));
                thread::spawn(move || {
                    copy([from, onward], || {
                        let (is_held, told) = &*gate;
                        let held = is_held.lock().expect("no panic");
                        drop(told.wait_while(held, |is_held| *is_held && number == 0));
                    });
                });
            }
        });
        Self { address, is_held }
    }

    fn hold(&self, is_held: bool) {
        *self.is_held.0.lock().expect("no panic") = is_held;
        self.is_held.1.notify_all();
    }
}

/// Passes bytes on until one of the ends is closed.
fn copy([mut from, mut to]: [TcpStream; 2], mut wait: impl FnMut()) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        wait();
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok();
}

#[test]
fn what_was_sent_on_a_lost_connection_lands_on_nothing_that_is_written_later() {
    let options = || patient().progress_thread(true).accept_all(true);
    let [left, right] = ["left", "right"].map(|name| open(options().name(name).listen(LOOPBACK)));
    let mut info = ConnInfo::decode(&right.listen().expect("listen")).expect("own bytes load");
    let relay = Relay::start(info.addresses[0]);
    info.addresses = vec![relay.address];
    left.load_remote_conn_info("right", &info.encode()).expect("they load");
    let (there, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    run(&operation).expect("it is connected");

    let fill = |byte| left.write_memory(memory, 0, &[byte; BYTES as usize]).expect("it is free");
    relay.hold(true);
    fill(1);
    operation.post(None).expect("it is up");
    lose(&left, "right");
    take_turns(&[], "the end", || uses(&left, memory) == 0);
    fill(2);
    operation.post(None).expect("it is connected again");
    let waits = || right.shared.engine().expect("no fork").has_proven();
    take_turns(&[], "the other end has come", || {
        assert!(
            matches!(operation.status(), OperationStatus::Active),
            "what was sent before is still under way"
        );
        waits()
    });
    assert_eq!(right.stats().total.one_sided.writes_served, 1);
    relay.hold(false);
    operation.wait(Some(PATIENCE)).expect("it is connected as soon as the other one has ended");
    let mut contents = [0; BYTES as usize];
    right.read_memory(there, 0, &mut contents).expect("nothing uses it");
    assert_eq!(contents, [2; BYTES as usize]);
    assert_eq!(right.stats().total.one_sided.writes_served, 3, "in their order");
}

#[test]
fn a_peer_that_has_said_goodbye_is_believed() {
    let [left, right] = acquainted();
    let (_, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    run(&operation).expect("it is up");
    right.disconnect("left").expect("left parts in peace");
    let is_over = || matches!(left.peer_state("right"), Ok(PeerState::Parted));
    take_turns(&[], "the goodbye is over", is_over);
    for _ in 0..2 {
        let refused = operation.post(None).expect_err("it has left");
        assert!(matches!(refused, Error::PeerGone { how: Departure::Goodbye, .. }), "{refused}");
    }
    // A restarted peer is reached as soon as its connection info is loaded.
    let next = open(patient().progress_thread(true).accept_all(true));
    let info = next.listen().expect("listen");
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    let refused = operation.post(None).expect_err("its memory is of the one before");
    assert!(
        matches!(refused, Error::Remote { problem: RemoteProblem::AnotherSession, .. }),
        "{refused:?}"
    );
    let (_, key) = exported(&next);
    run(&prepare(&left, memory, &key)).expect("it is connected");
}

#[test]
fn another_session_of_the_name_is_not_written_to() {
    let [left, right] = connected(patient().progress_thread(true));
    let (_, key) = exported(&right);
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    let operation = prepare(&left, memory, &key);
    run(&operation).expect("it is up");
    part(&left, &right);
    let next = open(patient().progress_thread(true));
    connect(&left, &next);
    let refused = operation.post(None);
    let is_told = |problem: &RemoteProblem| *problem == RemoteProblem::AnotherSession;
    assert!(matches!(&refused, Err(Error::Remote { problem, .. }) if is_told(problem)));
    assert!(matches!(operation.status(), OperationStatus::Done), "nothing was posted");
    assert_eq!(next.stats().total.one_sided.writes_served, 0);
}
