#![allow(unsafe_code)]
//! Tests of notifications that wait for room at a peer when an end leaves.
//!
//! Tests of lists of memory that are registered together.
//!
//! Tests of events of peers that come up and end.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_protocol::types::note_cost;
use tcpx_testkit::PATIENCE;

use super::{LOOPBACK, connect, connected, open, patient, soft, take_turns};
use crate::error::RegistrationProblem;
use crate::{
    Access, Departure, Error, MemoryAddress, MemoryType, NewRegistration, PeerState, Post, Session,
    SessionEvent,
};

/// Sends until no more notifications may wait. Returns the number taken.
fn fill(session: &Session) -> u64 {
    let note = vec![7; 10_000];
    for sent in 0.. {
        match session.notify("right", &note) {
            Ok(()) => {}
            Err(Error::NotificationsFull { .. }) => return sent,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("there is no end to numbers")
}

#[test]
fn what_waits_is_sent_before_a_goodbye() {
    let [left, right] = connected(patient().progress_thread(true));
    let sent = fill(&left);
    let mut taken = Vec::new();
    thread::scope(|scope| {
        let left = scope.spawn(|| left.disconnect("right"));
        while (taken.len() as u64) < sent {
            right.poll_notifications(&mut taken, usize::MAX).expect("no fork");
            thread::yield_now();
        }
        right.disconnect("left").expect("both say it");
        left.join().expect("no panic").expect("both say it");
    });
    assert_eq!(left.stats().total.one_sided.notifications_sent, sent);
    assert_eq!(left.stats().total.one_sided.notifications_unsent, 0);
}

/// The program's own limit counts from the first notification, whether or not the peer is there.
#[test]
fn as_much_waits_for_a_peer_that_is_yet_to_be_reached() {
    let far = open(patient());
    for room in [200_000, 1 << 20] {
        let left = open(soft().notification_bytes(room));
        left.load_remote_conn_info("right", &far.listen().expect("listen")).expect("it loads");
        // The peer makes no progress, so the link is never proven.
        assert_eq!(fill(&left), u64::from(room) / note_cost(10_000));
    }
}

/// Nothing is posted, so only the wait itself asks the peer for signs of life.
#[test]
fn a_wait_for_notifications_finds_a_frozen_peer() {
    let options = patient().progress_thread(true).peer_timeout(Some(Duration::from_secs(2)));
    let [left, right] = connected(options);
    let frozen = right.shared.engine().expect("no fork");
    let began = Instant::now();
    let failure = loop {
        let waited = left.wait_notifications(&mut Vec::new(), 1, Some(Duration::from_millis(100)));
        assert!(matches!(waited, Err(Error::Deadline { .. })), "{waited:?}");
        assert!(began.elapsed() < PATIENCE, "the peer counts as alive");
        if let Ok(PeerState::Failed(error)) = left.peer_state("right") {
            break error;
        }
    };
    assert!(matches!(failure, Error::PeerGone { how: Departure::Silent { .. }, .. }), "{failure}");
    drop(frozen);
}

/// Each peer has room of its own, and what the peer does not take waits at its sender.
#[test]
fn where_a_session_keeps_nothing_beside_for_its_peers_all_goes_on() {
    let [left, right] = connected(soft().kept_for_peers_bytes(0));
    let sent = fill(&left);
    let of_its_own = (72 << 10) / note_cost(10_000);
    let mut taken = Vec::new();
    take_turns(&[&left, &right], "all are taken", || {
        let waiting = right.stats().notifications_waiting as u64;
        assert!(waiting <= of_its_own, "{waiting} wait");
        right.poll_notifications(&mut taken, 1).expect("no fork");
        taken.len() as u64 == sent
    });
    assert_eq!(right.stats().kept_for_peers_bytes, 0);
}

#[test]
fn lost_notifications_are_counted() {
    for both_leave in [true, false] {
        let [left, right] = [soft(), patient()].map(|options| open(options.progress_thread(true)));
        connect(&left, &right);
        let sent = fill(&left);
        if both_leave {
            thread::scope(|scope| {
                let right = scope.spawn(|| right.disconnect("left"));
                // The call may come before the peer has said so.
                let _ = left.disconnect("right");
                let _ = right.join().expect("no panic");
            });
        } else {
            let outcome = left.disconnect("right");
            assert!(matches!(outcome, Err(Error::Deadline { .. })), "{outcome:?}");
        }
        let stats = left.stats().total.one_sided;
        assert!(stats.notifications_unsent > 0, "{stats:?}");
        assert_eq!(stats.notifications_sent + stats.notifications_unsent, sent);
    }
}

#[test]
fn lost_notifications_are_an_error_of_the_next_call() {
    let gone = open(soft());
    let info = gone.listen().expect("listen");
    drop(gone);
    let left = open(soft().progress_thread(true));
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    let is_lost = || matches!(left.peer_state("right"), Ok(PeerState::Failed(_)));
    let lose = || {
        for _ in 0..2 {
            left.notify("right", b"it waits").expect("the peer is yet to be reached");
        }
        take_turns(&[], "there is no listener", is_lost);
    };
    for round in 1..=2 {
        lose();
        let error = left.notify("right", b"one more").expect_err("two are lost");
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert_eq!(left.stats().total.one_sided.notifications_unsent, 2 * round);
    }
    lose();
    // What was lost with another session says nothing of this one.
    let back = open(patient().accept_all(true));
    let info = back.listen().expect("listen");
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    left.notify("right", b"hello").expect("it waits");
    let mut taken = Vec::new();
    take_turns(&[&back], "it is there", || {
        back.poll_notifications(&mut taken, 1).expect("no fork") > 0
    });
    assert_eq!(taken[0].bytes[..], b"hello"[..]);
}

const RANGES: usize = 5;
const RANGE_BYTES: usize = 100;

/// Returns the ranges of a buffer, one behind the other, and of each kind in turn.
fn ranges(buffer: *mut u8) -> [NewRegistration; RANGES] {
    std::array::from_fn(|index| NewRegistration {
        address: MemoryAddress::from_ptr(buffer.wrapping_add(index * RANGE_BYTES)),
        bytes: RANGE_BYTES as u64,
        memory: if index % 2 == 0 { MemoryType::Host } else { MemoryType::Device },
        access: Access::ReadWrite,
    })
}

#[test]
fn all_ranges_of_a_list_are_registered_and_serve() {
    let [left, right] = connected(patient().progress_thread(true));
    let mut from = [0; RANGES * RANGE_BYTES];
    from.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
    let mut to = [0; RANGES * RANGE_BYTES];
    let (source, target) = (from.as_mut_ptr(), to.as_mut_ptr());
    let register = |session: &Session, buffer| {
        // SAFETY: the buffers live longer than the sessions are used, and no code touches them
        // while operations are posted.
        unsafe { session.register_memory_list(&ranges(buffer)) }.expect("all are right")
    };
    let (sources, targets) = (register(&left, source), register(&right, target));
    assert_eq!(sources.iter().map(|id| id.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    for (index, (id, range)) in targets.iter().zip(ranges(target)).enumerate() {
        let info = right.memory_info(*id).expect("it is registered");
        assert_eq!((info.address, info.bytes), (range.address.get(), range.bytes), "{index}");
        assert_eq!((info.memory, info.access), (range.memory, range.access), "{index}");
    }
    let (send, receive) = (left.create_transfer("right"), right.create_transfer("left"));
    let (send, receive) = (send.expect("it is up"), receive.expect("it is up"));
    for (tag, (source, target)) in (0..).zip(sources.iter().zip(&targets)) {
        let post = |memory| Post { memory, offset: 0, bytes: RANGE_BYTES as u64, tag };
        receive.post_recv(post(*target)).expect("it fits");
        send.post_send(post(*source)).expect("it fits");
    }
    send.wait(None).expect("they leave");
    receive.wait(None).expect("they arrive");
    for id in targets {
        right.deregister_memory(id).expect("nothing uses it");
    }
    left.close().expect("nothing is posted");
    assert_eq!(to, from);
}

#[test]
fn one_wrong_range_leaves_none_of_a_list() {
    let session = open(soft());
    let mut buffer = [0; RANGES * RANGE_BYTES];
    let mut list = ranges(buffer.as_mut_ptr());
    let max = MemoryAddress::from_device(u64::MAX);
    let null = MemoryAddress::from_device(0);
    for (wrong, problem) in [
        (NewRegistration { bytes: 0, ..list[2] }, RegistrationProblem::Empty),
        (NewRegistration { address: null, ..list[2] }, RegistrationProblem::NullAddress),
        (NewRegistration { address: max, ..list[2] }, RegistrationProblem::PastEndOfMemory),
    ] {
        list[2] = wrong;
        // SAFETY: nothing is posted.
        let refused = unsafe { session.register_memory_list(&list) };
        assert!(
            matches!(refused, Err(Error::ListedRegistration { index: 2, problem: found })
                if found == problem),
            "{refused:?}"
        );
    }
    // SAFETY: nothing is posted.
    let none = unsafe { session.register_memory_list(&[]) }.expect("nothing is wrong");
    assert!(none.is_empty());
    // SAFETY: nothing is posted.
    let last = unsafe { session.register_memory_list(&list[..1]) };
    let last = last.expect("it is right")[0];
    let is_gone = |id| {
        let id = crate::MemoryId::new(id).expect("it is above 0");
        matches!(session.memory_info(id), Err(Error::UnknownRegistration { .. }))
    };
    assert!(last.get() > 1, "what was taken back had an id");
    assert!((1..last.get()).all(is_gone), "and has no registration");
}

fn session() -> Session {
    open(patient().channels(1).listen(LOOPBACK).eager_bytes(0))
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).expect("poll") == 1
}

/// Returns the events of the session once its descriptor signals some.
fn next_events(of: &Session, sessions: &[&Session]) -> Vec<SessionEvent> {
    let begin = Instant::now();
    let mut events = Vec::new();
    let descriptor = of.completions.event().open().expect("a descriptor");
    while of.poll_events(&mut events, 9).expect("no fork") == 0 {
        while !is_readable(descriptor) {
            assert!(begin.elapsed() < PATIENCE, "nothing is reported");
            for session in sessions {
                session.progress();
            }
        }
    }
    events
}

fn next_state(of: &Session, sessions: &[&Session]) -> (String, PeerState) {
    match &next_events(of, sessions)[..] {
        [SessionEvent::Peer { name, state }] => (name.clone(), state.clone()),
        other => panic!("{other:?}"),
    }
}

fn begin_to_meet(left: &Session, right: &Session) {
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    right.start_accept("left").expect("it begins");
    left.start_connect("right").expect("it begins");
}

#[test]
fn a_peer_that_comes_up_and_parts_is_told() {
    let [left, right] = [(); 2].map(|()| session());
    let both = [&left, &right];
    left.report_peers().expect("no fork");
    begin_to_meet(&left, &right);
    let told = next_state(&left, &both);
    assert!(matches!(&told, (name, PeerState::Up) if name == "right"), "{told:?}");
    // A late caller receives events of the peers that are up already.
    while !matches!(right.peer_state("left"), Ok(PeerState::Up)) {
        for session in both {
            session.progress();
        }
    }
    right.report_peers().expect("no fork");
    let told = next_state(&right, &both);
    assert!(matches!(&told, (name, PeerState::Up) if name == "left"), "{told:?}");
    for (session, peer) in [(&left, "right"), (&right, "left")] {
        session.start_disconnect(peer).expect("it is up");
    }
    for (session, peer) in [(&left, "right"), (&right, "left")] {
        let told = next_state(session, &both);
        assert!(matches!(&told, (name, PeerState::Parted) if name == peer), "{told:?}");
    }
    assert_eq!(left.poll_events(&mut Vec::new(), 9).expect("no fork"), 0);
}

#[test]
fn a_peer_that_fails_is_told_beside_what_has_ended_with_it() {
    let [left, right] = [(); 2].map(|()| session());
    begin_to_meet(&left, &right);
    left.report_peers().expect("no fork");
    let both = [&left, &right];
    assert!(matches!(next_state(&left, &both), (_, PeerState::Up)));
    let transfer = left.create_transfer("right").expect("it is up");
    transfer.report_completions(7).expect("no fork");
    let memory = left.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    transfer.post_recv(Post { memory, offset: 0, bytes: 8, tag: 1 }).expect("it fits");
    let (key, _) = right.shared.engine().expect("no fork").peer("left").expect("it is up");
    right.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
    let events = next_events(&left, &both);
    let [
        SessionEvent::Peer { name, state: PeerState::Failed(error) },
        SessionEvent::Completed(completion),
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    let is_abort =
        |error: &Error| matches!(error, Error::PeerGone { how: Departure::Abort(_), .. });
    assert!(name == "right" && is_abort(error), "{error:?}");
    assert!(completion.context == 7 && completion.result.as_ref().is_err_and(is_abort));
}

#[test]
fn an_accept_without_a_peer_is_reported() {
    let session = session();
    session.report_peers().expect("no fork");
    session.listen().expect("listen");
    session.start_accept("absent").expect("it begins");
    session.shared.progress_at(Instant::now() + 2 * PATIENCE);
    let told = next_state(&session, &[]);
    assert!(matches!(&told.1, PeerState::Failed(Error::Deadline { .. })), "{told:?}");
    assert_eq!(told.0, "absent");
}
