//! Tests of posts while another thread is inside the session.
//!
//! Tests of a peer that proves itself and then sends nothing more.
//!
//! Tests of a program that asks for progress repeatedly, beside the progress thread of its session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::Direction;
use tcpx_testkit::{PATIENCE, until};

use super::{connect, connected, open, soft, uses};
use crate::control::connector::Connector;
use crate::{
    Access, Error, ExportOptions, MemoryId, MemoryRange, MemoryType, Operation, OperationKind,
    OperationStatus, Post, RemoteAccess, RemoteKey, RemoteRange, Session, SessionOptions, Transfer,
};

/// Session with memory of 64 bytes.
struct EndWithMemory {
    session: Session,
    memory: MemoryId,
    transfer: Transfer,
}

impl EndWithMemory {
    fn post(&self, index: u64) -> Post {
        Post { memory: self.memory, offset: index, bytes: 1, tag: 7 }
    }

    /// Returns whether posts are taken without the engine.
    fn takes(&self, direction: Direction, posts: &[Post]) -> bool {
        self.session.shared.try_enqueue(self.transfer.target(), direction, posts)
    }
}

fn pair(options: SessionOptions) -> [EndWithMemory; 2] {
    let [left, right] = connected(options);
    [(left, "right"), (right, "left")].map(|(session, peer)| {
        let bytes: Vec<u8> = (0..64).collect();
        let memory = session.register_buffer(bytes, Access::ReadWrite).expect("memory");
        let transfer = session.create_transfer(peer).expect("it is up");
        EndWithMemory { session, memory, transfer }
    })
}

#[test]
fn posts_are_taken_in_order_while_another_thread_has_the_engine() {
    let [left, right] = pair(soft());
    {
        // A thread that waits for these engines here waits forever.
        let engines = [&left, &right].map(|end| end.session.shared.engine().expect("no fork"));
        for index in 0..64 {
            left.transfer.post_send(left.post(index)).expect("it is taken");
            right.transfer.post_recv(right.post(63 - index)).expect("it is taken");
        }
        for end in [&left, &right] {
            assert!(end.session.shared.poller().has_work(), "the leader is woken");
            let counts = end.transfer.round_counts().expect("no fork");
            assert_eq!((counts.operations_posted, counts.operations_done), (64, 0));
            assert!(!end.transfer.is_complete().expect("it goes on"));
        }
        drop(engines);
    }
    thread::scope(|scope| {
        scope.spawn(|| left.transfer.wait(Some(PATIENCE)).expect("the sends go well"));
        right.transfer.wait(Some(PATIENCE)).expect("the receives go well");
    });
    let received = right.session.take_buffer(right.memory).expect("nothing uses it");
    assert!(received.iter().rev().copied().eq(0..64), "all of one tag, in the order of posts");
}

#[test]
fn the_call_returns_what_is_wrong_with_a_post() {
    let [left, _right] = pair(soft());
    let good = left.post(0);
    let read_only = left.session.register_buffer(vec![0; 8], Access::ReadOnly).expect("memory");
    let gone = left.session.register_buffer(vec![0; 8], Access::ReadOnly).expect("memory");
    left.session.deregister_memory(gone).expect("nothing uses it");
    let engine = left.session.shared.engine().expect("no fork");
    for wrong in [
        Post { bytes: 65, ..good },
        Post { offset: u64::MAX, ..good },
        Post { memory: read_only, ..good },
        Post { memory: gone, ..good },
    ] {
        assert!(!left.takes(Direction::Receive, &[good, wrong]), "{wrong:?}");
    }
    assert!(left.takes(Direction::Send, &[Post { memory: read_only, ..good }]));
    assert!(!left.takes(Direction::Send, &vec![good; 65]), "a large batch");
    let counts = left.transfer.counts().expect("no fork");
    assert_eq!(counts.operations_posted, 1, "of the others nothing was posted");
    // A post without room waits for the engine.
    let taken = (0..2000).take_while(|_| left.takes(Direction::Send, &[good])).count();
    assert_eq!(taken, 1023);
    drop(engine);
    assert!(left.takes(Direction::Send, &[]), "nothing is taken as well");
    left.session.progress();
    assert_eq!(left.transfer.counts().expect("no fork").operations_posted, 1024);
}

#[test]
fn queued_posts_are_cancelled_with_their_memory() {
    let [left, _right] = pair(soft().eager_bytes(0));
    let engine = left.session.shared.engine().expect("no fork");
    left.transfer.post_send(left.post(0)).expect("it is taken");
    drop(engine);
    assert_eq!(uses(&left.session, left.memory), 1);
    left.session.deregister_memory(left.memory).expect("the peer has not heard of it");
    assert!(matches!(left.transfer.is_complete(), Err(Error::Cancelled)));
    let refused = left.transfer.post_send(left.post(0));
    assert!(matches!(refused, Err(Error::UnknownRegistration { .. })), "{refused:?}");
}

#[test]
fn no_post_is_queued_while_memory_is_copied() {
    let [left, _right] = pair(soft().eager_bytes(0));
    let mut engine = left.session.shared.engine().expect("no fork");
    let key = {
        let registrations = &engine.resources.ledger.registrations;
        registrations.span(left.memory, 0, 1, Access::ReadOnly).expect("it fits").registration
    };
    engine.begin_copy(left.memory, key).expect("nothing uses it");
    assert!(!left.takes(Direction::Send, &[left.post(0)]));
    engine.end_copy(left.memory, key);
    assert!(left.takes(Direction::Send, &[left.post(0)]));
    let refused = engine.begin_copy(left.memory, key);
    assert!(matches!(refused, Err(Error::InUse { operations: 1, .. })), "{refused:?}");
}

#[test]
fn queued_posts_end_with_their_peer() {
    let [left, _right] = pair(soft());
    let mut engine = left.session.shared.engine().expect("no fork");
    left.transfer.post_send(left.post(0)).expect("it is taken");
    let key = engine.peer("right").expect("it is known").0;
    engine.fail_peer(key, Error::Cancelled);
    assert!(!left.takes(Direction::Send, &[left.post(0)]), "it is over, and that shows");
    drop(engine);
    assert!(matches!(left.transfer.wait(Some(PATIENCE)), Err(Error::Cancelled)));
    assert!(matches!(left.transfer.post_send(left.post(0)), Err(Error::Cancelled)));
}

#[test]
fn queued_posts_end_with_their_session() {
    let [left, right] = pair(soft());
    // The peer leaves too, whenever it learns of the end.
    drop(right);
    let mut engine = left.session.shared.engine().expect("no fork");
    engine.start_close();
    let is_taken = left.takes(Direction::Send, &[left.post(0)]);
    assert!(!is_taken, "it is closed, and that shows");
    drop(engine);
    assert!(matches!(left.transfer.post_send(left.post(0)), Err(Error::Closed)));
}

/// Threads post beside one that leads, to two transfers, in rounds.
#[test]
fn many_threads_post_while_one_leads() {
    const ROUNDS: u64 = 300;
    let [left, right] = pair(soft().progress_thread(true));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for end in [&left, &right] {
            // This thread takes the engine repeatedly.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(end.session.stats());
                    thread::yield_now();
                }
            });
        }
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let (end, direction) = match index % 2 {
                    0 => (&left, Direction::Send),
                    _ => (&right, Direction::Receive),
                };
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let posts = [end.post(index), end.post(index)];
                        match direction {
                            Direction::Send => end.transfer.post_send_batch(&posts),
                            Direction::Receive => end.transfer.post_recv_batch(&posts),
                        }
                        .expect("it is taken");
                        thread::yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let posted =
            |end: &EndWithMemory| end.transfer.counts().expect("no fork").operations_posted;
        assert_eq!([posted(&left), posted(&right)], [4 * ROUNDS; 2]);
        for end in [&left, &right] {
            until("what was posted is moved", || {
                end.transfer.is_complete().expect("nothing fails")
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_unclaimed_peer_that_never_comes_up_is_forgotten() {
    let [server, client] = [(); 2].map(|()| open(soft().connect_channels(true)));
    let info = ConnInfo::decode(&server.listen().expect("listen")).expect("own bytes load");
    let mut connector = Connector::new(info, 0);
    let give_up_at = Instant::now() + PATIENCE;
    let _link = loop {
        let now = Instant::now();
        assert!(now < give_up_at, "the server is {}", connector.state());
        server.progress();
        let outcome = connector.poll(
            "server",
            now,
            &client.shared.engine().expect("no fork").resources.session.identity,
        );
        if let Some(reached) = outcome.expect("it is welcomed") {
            break reached.proven.link;
        }
    };
    let waiting = server.stats().peers;
    assert!(waiting.len() == 1 && waiting[0].name.contains("not accepted"), "{waiting:?}");
    let late = Instant::now() + server.options().connect_timeout;
    // One round ends the peer, the next forgets it.
    server.shared.progress_at(late);
    server.shared.progress_at(late);
    assert!(server.stats().peers.is_empty());
    assert_eq!(server.stats().peers_failed, 1);
}

const BYTES: u64 = 1000;

fn exported(session: &Session) -> (MemoryId, RemoteKey) {
    let memory = session.allocate(BYTES, MemoryType::Host).expect("memory");
    let key = session.export(memory, ExportOptions::new(RemoteAccess::ReadWrite));
    (memory, key.expect("it is registered"))
}

fn prepare(session: &Session, peer: &str, memory: MemoryId, key: &RemoteKey) -> Operation {
    let local = [MemoryRange { memory, offset: 0, bytes: BYTES }];
    let remote = [RemoteRange { key, offset: 0, bytes: BYTES }];
    session.prepare(peer, OperationKind::Write, &local, &remote).expect("it fits")
}

#[test]
fn the_progress_thread_stands_back_while_the_program_polls() {
    let [left, right] = [true, false].map(|thread| open(soft().progress_thread(thread)));
    connect(&left, &right);
    let ((mine, my_key), (its, its_key)) = (exported(&left), exported(&right));
    until("the thread begins", || left.shared.is_led());
    // The time is enough for some operations, also on a machine that has hardly a processor for
    // them.
    left.shared.stand_back.set(Duration::from_millis(300)).expect("it is set once");
    // No other thread asks the system for the program now: its posts end by its own rounds. The
    // same thread makes those of the other end.
    let operation = prepare(&left, "right", mine, &its_key);
    let mut moved_alone = 0;
    let began = Instant::now();
    while moved_alone < 10 {
        assert!(began.elapsed() < PATIENCE, "the thread does not stand back");
        operation.post(None).expect("it is up");
        let mut is_alone = true;
        while matches!(operation.status(), OperationStatus::Active) {
            is_alone &= !left.shared.is_led();
            left.progress();
            left.progress();
            right.progress();
        }
        assert!(matches!(operation.status(), OperationStatus::Done));
        moved_alone += u32::from(is_alone);
    }
    // The program asks no more, and the progress thread serves it all the same.
    let back = prepare(&right, "left", its, &my_key);
    back.post(None).expect("it is up");
    back.wait(Some(PATIENCE)).expect("the thread makes the rounds again");
    assert!(left.shared.is_led());
}

#[test]
fn a_thread_that_waits_takes_the_lead_of_the_progress_thread() {
    let [left, right] = [true, false].map(|thread| open(soft().progress_thread(thread)));
    connect(&left, &right);
    until("the thread begins", || left.shared.is_led());
    let shared = &left.shared;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| left.wait_notifications(&mut Vec::new(), 1, Some(PATIENCE)));
        until("the wait leads", || shared.is_led() && !shared.thread_leads.load(Ordering::Relaxed));
        right.notify("left", b"news").expect("it is up");
        until("it comes", || {
            right.progress();
            waiting.is_finished()
        });
        waiting.join().expect("no panic").expect("it came in time");
    });
    until("the progress thread leads again", || shared.thread_leads.load(Ordering::Relaxed));
}

#[test]
fn the_progress_thread_leads_again_when_the_session_is_armed() {
    const HOUR: Duration = Duration::from_secs(3600);
    let [left, right] = [true, false].map(|thread| open(soft().progress_thread(thread)));
    connect(&left, &right);
    until("the thread begins", || left.shared.is_led());
    left.shared.stand_back.set(HOUR).expect("it is set once");
    let leads = || left.shared.thread_leads.load(Ordering::SeqCst);
    for _ in 0..3 {
        let waited = left.wait_notifications(&mut Vec::new(), 1, Some(Duration::from_millis(20)));
        assert!(matches!(waited, Err(Error::Deadline { .. })), "{waited:?}");
        left.arm();
        until("the thread leads", leads);
    }
}
