//! Tests of peers that meet, move bytes and part without a call that waits, all in one thread.
//!
//! Tests of transfers and operations with a time limit of the program.

use std::os::fd::BorrowedFd;
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_testkit::PATIENCE;

use super::{LOOPBACK, connected, open, patient, soft, take_turns};
use crate::engine::round::Rest;
use crate::{
    Access, Error, ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind,
    OperationStatus, PeerState, Phase, Post, PostOptions, RemoteAccess, RemoteKey, RemoteRange,
    Session, SessionEvent, SessionOptions, Transfer, TransferCompletion,
};

/// Returns a session in which every send waits for its receive.
fn session(name: &str) -> Session {
    open(patient().channels(1).name(name).listen(LOOPBACK).eager_bytes(0))
}

fn state(session: &Session, peer: &str) -> String {
    format!("{:?}", session.peer_state(peer))
}

/// Makes a round as if everything with a limit were late.
fn late_round(session: &Session) {
    let late = Instant::now() + 2 * PATIENCE;
    session.shared.progress_at(late);
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).expect("poll") == 1
}

fn completions(session: &Session) -> Vec<TransferCompletion> {
    let mut completions = Vec::new();
    session.poll_completions(&mut completions, usize::MAX).expect("no fork");
    completions
}

/// Brings `left` and `right` together under these names.
fn meet(left: &Session, right: &Session) {
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    right.start_accept("left").expect("it begins");
    left.start_connect("right").expect("it begins");
    assert_eq!(state(right, "left"), "Ok(Accepting)");
    assert_eq!(state(left, "right"), "Ok(Connecting)");
    take_turns(&[left, right], "they meet", || {
        state(left, "right") == "Ok(Up)" && state(right, "left") == "Ok(Up)"
    });
}

/// Says goodbye at both ends; neither waits.
fn part(left: &Session, right: &Session) {
    left.start_disconnect("right").expect("it is up");
    right.start_disconnect("left").expect("it is up");
    assert_eq!(state(left, "right"), "Ok(Leaving)");
    let is_unknown = |session: &Session, peer: &str| {
        matches!(session.peer_state(peer), Err(Error::UnknownPeer { .. }))
    };
    take_turns(&[left, right], "they part", || {
        is_unknown(left, "right") && is_unknown(right, "left")
    });
    left.close().expect("there is no peer to wait for");
    right.close().expect("there is no peer to wait for");
}

fn transfers(left: &Session, right: &Session) -> [Transfer; 2] {
    [left.create_transfer("right"), right.create_transfer("left")]
        .map(|made| made.expect("it is up"))
}

#[test]
fn two_sessions_of_one_thread_meet_move_bytes_and_part() {
    let [left, right] = ["left", "right"].map(session);
    meet(&left, &right);
    let from = left.register_buffer(b"hello".to_vec(), Access::ReadOnly).expect("memory");
    let to = right.register_buffer(vec![0; 5], Access::ReadWrite).expect("memory");
    let [send, receive] = transfers(&left, &right);
    send.report_completions(1).expect("no fork");
    receive.report_completions(2).expect("no fork");
    let descriptor = right.completions.event().open().expect("a descriptor");
    assert!(completions(&right).is_empty() && !is_readable(descriptor));
    for round in 1..=3 {
        receive.post_recv(Post { memory: to, offset: 0, bytes: 5, tag: 1 }).expect("it fits");
        send.post_send(Post { memory: from, offset: 0, bytes: 5, tag: 1 }).expect("it fits");
        take_turns(&[&left, &right], "bytes move", || is_readable(descriptor));
        let [TransferCompletion { context: 2, rounds: 1, result: Ok(()) }] =
            completions(&right)[..]
        else {
            panic!("round {round}");
        };
        assert!(!is_readable(descriptor));
        take_turns(&[&left, &right], "they left", || send.is_complete().expect("it goes well"));
    }
    let [TransferCompletion { context: 1, rounds: 3, result: Ok(()) }] = completions(&left)[..]
    else {
        panic!("no event came for three rounds");
    };
    assert_eq!(*right.take_buffer(to).expect("it is free"), *b"hello");
    part(&left, &right);
}

#[test]
fn the_queue_has_errors_and_forgets_transfers_that_are_gone() {
    let [left, right] = ["left", "right"].map(session);
    meet(&left, &right);
    let memory = left.register_buffer(vec![0; 5], Access::ReadWrite).expect("memory");
    let post = Post { memory, offset: 0, bytes: 5, tag: 1 };
    let [silent, reports, goes] = [(), (), ()].map(|()| left.create_transfer("right").expect("up"));
    reports.report_completions(7).expect("no fork");
    goes.report_completions(8).expect("no fork");
    let descriptor = left.completions.event().open().expect("a descriptor");
    assert!(completions(&left).is_empty());
    silent.post_send(post).expect("it fits");
    silent.cancel();
    assert!(is_readable(descriptor), "also for what is not in the queue");
    assert!(completions(&left).is_empty() && !is_readable(descriptor));
    for transfer in [&goes, &reports] {
        transfer.post_send(post).expect("it fits");
        transfer.cancel();
    }
    assert!(is_readable(descriptor));
    reports.report_completions(9).expect("no fork");
    drop(goes);
    let [TransferCompletion { context: 9, rounds: 1, result: Err(Error::Cancelled) }] =
        completions(&left)[..]
    else {
        panic!("one entry");
    };
    part(&left, &right);
}

#[test]
fn any_peer_is_accepted_by_its_own_name_or_a_made_up_one() {
    let server = session("");
    let info = server.listen().expect("listen");
    server.load_remote_conn_info("peer-1", &info).expect("the name is in use");
    let clients = ["a", "a", "", "b"].map(session);
    let begun = server.poll_accept_any();
    assert!(matches!(begun, Err(Error::PeerState { .. })), "none is under way: {begun:?}");
    let mut names = Vec::new();
    for client in &clients[..3] {
        server.start_accept_any().expect("it listens");
        client.load_remote_conn_info("server", &info).expect("own bytes load");
        client.start_connect("server").expect("it begins");
        take_turns(&[&server, client], "it comes", || {
            match server.poll_accept_any().expect("it goes well") {
                Poll::Ready(name) => names.push(name),
                Poll::Pending => return false,
            }
            true
        });
        take_turns(&[&server, client], "it is up", || state(client, "server") == "Ok(Up)");
    }
    assert_eq!(names, ["a", "peer-2", "peer-3"]);
    for name in &names {
        assert_eq!(state(&server, name), "Ok(Up)");
    }
    // The waiting call takes peers that have come already at once.
    let last = &clients[3];
    last.load_remote_conn_info("server", &info).expect("own bytes load");
    last.start_connect("server").expect("it begins");
    take_turns(&[&server, last], "it comes up", || state(last, "server") == "Ok(Up)");
    assert_eq!(server.accept_any().expect("it has come"), "b");
    for (client, name) in clients.iter().zip(names.iter().map(String::as_str).chain(["b"])) {
        server.start_disconnect(name).expect("it is up");
        client.start_disconnect("server").expect("it is up");
    }
    let sessions: Vec<_> = clients.iter().chain([&server]).collect();
    take_turns(&sessions, "all part", || {
        sessions.iter().all(|session| session.stats().peers.is_empty())
    });
}

#[test]
fn an_attempt_ends_with_the_error_of_the_waiting_call_when_its_time_is_over() {
    let [left, right] = ["left", "right"].map(session);
    left.listen().expect("listen");
    // The peer is reached, and never answers: it makes no progress.
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    left.start_connect("right").expect("it begins");
    left.start_accept("absent").expect("it listens");
    left.start_accept_any().expect("it listens");
    let taken = left.start_accept("right");
    assert!(matches!(taken, Err(Error::PeerState { .. })), "{taken:?}");
    let descriptor = left.completions.event().open().expect("a descriptor");
    left.progress();
    assert!(completions(&left).is_empty() && !is_readable(descriptor));
    late_round(&left);
    assert!(is_readable(descriptor));
    for (peer, during) in [("right", Phase::Connect), ("absent", Phase::Accept)] {
        match left.peer_state(peer) {
            Ok(PeerState::Failed(Error::Deadline { phase, .. })) => assert_eq!(phase, during),
            other => panic!("{peer}: {other:?}"),
        }
    }
    let anyone = left.poll_accept_any();
    assert!(matches!(anyone, Err(Error::Deadline { phase: Phase::Accept, peer: None, .. })));
    let again = left.poll_accept_any();
    assert!(matches!(again, Err(Error::PeerState { .. })), "it is answered once: {again:?}");
    // The names are free again, and another attempt forgets the failure.
    left.start_accept("right").expect("it begins");
    assert_eq!(state(&left, "right"), "Ok(Accepting)");
    left.disconnect("absent").expect("the failure is forgotten");
    assert!(matches!(left.peer_state("absent"), Err(Error::UnknownPeer { .. })));
}

#[test]
fn what_was_begun_can_be_given_up() {
    let [left, right] = ["left", "right"].map(session);
    let info = left.listen().expect("listen");
    right.load_remote_conn_info("left", &info).expect("own bytes load");
    left.start_accept("right").expect("it listens");
    left.start_accept_any().expect("it listens");
    left.disconnect("right").expect("no peer has come");
    left.stop_accept_any().expect("no fork");
    assert!(matches!(left.peer_state("right"), Err(Error::UnknownPeer { .. })));
    assert!(matches!(left.poll_accept_any(), Err(Error::PeerState { .. })));
    right.start_connect("left").expect("it begins");
    take_turns(&[&left, &right], "it comes up", || state(&right, "left") == "Ok(Up)");
    assert!(
        matches!(left.peer_state("right"), Err(Error::UnknownPeer { .. })),
        "no attempt was made"
    );

    // A connect that is given up leaves nothing behind.
    let [near, far] = ["near", "far"].map(session);
    near.load_remote_conn_info("far", &far.listen().expect("listen")).expect("own bytes load");
    near.start_connect("far").expect("it begins");
    near.progress();
    near.disconnect("far").expect("it cannot be up");
    late_round(&near);
    assert!(matches!(near.peer_state("far"), Err(Error::UnknownPeer { .. })));
    assert!(near.stats().peers.is_empty());

    // A session that closes ends its attempts.
    far.start_accept_any().expect("it listens");
    far.start_accept("near").expect("it listens");
    far.close().expect("there is no peer");
    assert!(matches!(far.peer_state("near"), Err(Error::Closed)));
    assert!(matches!(far.poll_accept_any(), Err(Error::Closed)));

    left.start_accept("right").expect("it has come");
    take_turns(&[&left, &right], "it is up", || state(&left, "right") == "Ok(Up)");
    part(&left, &right);
}

/// Limit short enough that everything is overdue that does not end by itself.
const SHORT: Duration = Duration::from_millis(1);
const BYTES: u64 = 3_000_000;

fn is_expired(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(Error::Expired { peer: Some(peer), after: SHORT }) if peer == "right")
}

#[test]
fn a_round_that_takes_too_long_ends_and_the_next_one_has_its_own_time() {
    let sessions @ [left, right] = &connected(soft().channels(1));
    let memory = left.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    let transfer = left.create_transfer("right").expect("it is up");
    let post = Post { memory, offset: 0, bytes: 8, tag: 1 };
    for _ in 0..2 {
        transfer.set_timeout(Some(SHORT)).expect("it is there");
        transfer.post_recv(post).expect("it fits");
        let mut outcome = Ok(false);
        take_turns(&sessions.each_ref(), "it is given up", || {
            outcome = transfer.is_complete();
            !matches!(outcome, Ok(false))
        });
        assert!(is_expired(&outcome.map(drop)));
        transfer.set_timeout(None).expect("it is there");
        transfer.post_recv(post).expect("it fits");
        let send = right.create_transfer("left").expect("it is up");
        let from = right.register_buffer(vec![7; 8], Access::ReadOnly).expect("memory");
        send.post_send(Post { memory: from, offset: 0, bytes: 8, tag: 1 }).expect("it fits");
        take_turns(&sessions.each_ref(), "it is met", || {
            transfer.is_complete().expect("it goes well")
        });
    }
}

#[test]
fn a_resting_leader_wakes_up_when_a_round_is_overdue() {
    const LIMIT: Duration = Duration::from_millis(40);
    let sessions @ [left, _] = &connected(soft().channels(1));
    let memory = left.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    let transfer = left.create_transfer("right").expect("it is up");
    transfer.set_timeout(Some(LIMIT)).expect("it is there");
    transfer.post_recv(Post { memory, offset: 0, bytes: 8, tag: 1 }).expect("it fits");
    let overdue_at = Instant::now() + LIMIT;
    take_turns(&sessions.each_ref(), "it rests, or is given up", || {
        let rest = left.shared.engine().expect("no fork").rest(Instant::now());
        let rests = matches!(rest, Rest::Until(at) if at <= overdue_at);
        assert!(rests || !matches!(rest, Rest::Until(_)) || transfer.error().is_some(), "{rest:?}");
        rests || transfer.error().is_some()
    });
}

struct RemoteMemory {
    memory: MemoryId,
    there: MemoryId,
    key: RemoteKey,
}

fn remote([left, right]: &[Session; 2]) -> RemoteMemory {
    let memory = left.allocate(BYTES, MemoryType::Host).expect("memory");
    left.write_memory(memory, 0, &[7; 100]).expect("it is ours");
    let there = right.allocate(BYTES, MemoryType::Host).expect("memory");
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(there, options).expect("it is registered");
    RemoteMemory { memory, there, key }
}

fn prepare(left: &Session, remote: &RemoteMemory, kind: OperationKind, bytes: u64) -> Operation {
    let local = [MemoryRange { memory: remote.memory, offset: 0, bytes }];
    let there = [RemoteRange { key: &remote.key, offset: 0, bytes }];
    left.prepare("right", kind, &local, &there).expect("it fits")
}

#[test]
fn a_write_whose_target_does_nothing_ends_in_time_and_works_later() {
    let sessions @ [left, right] = &connected(soft().channels(1));
    let remote = remote(sessions);
    for bytes in [100, BYTES] {
        let operation = prepare(left, &remote, OperationKind::Write, bytes);
        for _ in 0..3 {
            operation.post_with(PostOptions::default().timeout(SHORT)).expect("it is idle");
            // Only this end makes progress.
            assert!(is_expired(&operation.wait(Some(PATIENCE))));
        }
        let timeout = PostOptions::default().timeout(10 * PATIENCE).notification(b"done");
        operation.post_with(timeout).expect("it is idle");
        take_turns(&sessions.each_ref(), "it is done", || {
            !matches!(operation.status(), OperationStatus::Active)
        });
        operation.wait(None).expect("it has time");
        let mut contents = [0; 100];
        take_turns(&sessions.each_ref(), "nothing of the others is under way", || {
            right.read_memory(remote.there, 0, &mut contents).is_ok()
        });
        assert_eq!(contents, [7; 100]);
    }
}

#[test]
fn a_read_ends_when_its_target_sends_no_more() {
    let sessions @ [left, _] = &connected(soft().channels(1));
    let remote = remote(sessions);
    let operation = prepare(left, &remote, OperationKind::Read, BYTES);
    operation.post_with(PostOptions::default().timeout(SHORT)).expect("it is idle");
    let late = Instant::now() + 2 * SHORT;
    while Instant::now() < late {
        left.progress();
    }
    assert!(matches!(operation.status(), OperationStatus::Active), "its memory may be written");
    take_turns(&sessions.each_ref(), "it is over", || {
        !matches!(operation.status(), OperationStatus::Active)
    });
    assert!(is_expired(&operation.wait(None)));
    left.deregister_memory(remote.memory).expect("nothing uses it");
}

/// Waits on the descriptor alone until an event says that the peer is up.
fn await_up(session: &Session) {
    let give_up_at = Instant::now() + PATIENCE;
    session.report_peers().expect("no fork");
    let mut events = Vec::new();
    while session.poll_events(&mut events, 9).expect("no fork") == 0 {
        assert!(Instant::now() < give_up_at, "{:?}", session.stats().peers);
        let patience = Timespec::try_from(PATIENCE).expect("it is short");
        let descriptor = session.event_fd().expect("a descriptor");
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).expect("it waits");
    }
    let is_up = |event| matches!(event, SessionEvent::Peer { state: PeerState::Up, .. });
    assert!(events.into_iter().all(is_up));
}

/// By default a session makes progress by itself, as it does in C.
#[test]
fn programs_that_only_await_their_descriptors_are_connected() {
    let [left, right] =
        [(); 2].map(|()| open(soft().progress_thread(SessionOptions::default().progress_thread)));
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    right.start_accept("left").expect("it begins");
    left.start_connect("right").expect("it begins");
    [&left, &right].into_iter().for_each(await_up);
}
