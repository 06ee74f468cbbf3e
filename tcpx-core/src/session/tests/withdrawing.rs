//! Tests of large transfers that are withdrawn in slices, one in a round. Nothing here reads a
//! clock: tests count the steps of each call.
//!
//! Tests of calls that a program may make while another thread is inside the session, for however
//! long.

use std::sync::mpsc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tcpx_protocol::peer::SLICE;
use tcpx_protocol::types::MemoryType;
use tcpx_testkit::PATIENCE;

use super::{connected, open, patient, soft, uses};
use crate::engine::Engine;
use crate::session::wait::WaitLimit;
use crate::{Access, Error, MemoryId, Post, Session, SessionOptions, Transfer};

const MANY: usize = 3 * SLICE + 5;

fn posts(memory: MemoryId, count: usize) -> Vec<Post> {
    vec![Post { memory, offset: 0, bytes: 1, tag: 7 }; count]
}

fn ended(transfer: &Transfer) -> usize {
    transfer.counts().expect("counts are always there").operations_done as usize
}

struct BacklogSessions {
    left: Session,
    right: Session,
    memory: MemoryId,
    /// Many sends of left, without a counterpart.
    many: Transfer,
}

fn scene(options: SessionOptions) -> BacklogSessions {
    let [left, right] = connected(options.channels(1));
    let memory = left.allocate(1, MemoryType::Host).unwrap();
    let many = left.create_transfer("right").unwrap();
    many.post_send_batch(&posts(memory, MANY)).unwrap();
    BacklogSessions { left, right, memory, many }
}

#[test]
fn a_cancel_ends_a_slice_and_every_round_another() {
    let BacklogSessions { left, right: _right, memory, many } = scene(soft());
    many.cancel();
    assert_eq!(ended(&many), SLICE);
    // A small transfer need not wait until the large one is done, which goes on with the rest.
    let small = left.create_transfer("right").unwrap();
    small.post_send_batch(&posts(memory, 3)).unwrap();
    small.cancel();
    assert_eq!((ended(&many), ended(&small)), (2 * SLICE - 3, 3));
    left.progress();
    assert_eq!(ended(&many), 3 * SLICE - 3);
    left.progress();
    assert_eq!(ended(&many), MANY);
    assert!(matches!(many.is_complete(), Err(Error::Cancelled)));
}

#[test]
fn a_cancel_beside_a_backlog_touches_its_own_operations_alone() {
    let BacklogSessions { left, right: _right, memory, many } = scene(soft());
    let small = left.create_transfer("right").unwrap();
    small.post_send_batch(&posts(memory, 3)).unwrap();
    small.cancel();
    assert_eq!((ended(&small), ended(&many)), (3, 0));
    drop(small);
    assert_eq!(ended(&many), 0);
}

#[test]
fn memory_of_a_large_transfer_that_was_released_is_free_after_some_rounds() {
    let BacklogSessions { left, right: _right, memory, many } = scene(soft());
    drop(many);
    assert_eq!(uses(&left, memory), MANY - SLICE);
    left.progress();
    assert_eq!(uses(&left, memory), MANY - 2 * SLICE);
    left.progress();
    left.progress();
    assert_eq!(uses(&left, memory), 0);
    left.deregister_memory(memory).expect("nothing uses it");
}

#[test]
fn a_deregistration_waits_until_every_slice_is_withdrawn() {
    let BacklogSessions { left, right: _right, memory, many } = scene(soft());
    left.deregister_memory(memory).expect("no peer has heard of any");
    assert_eq!(ended(&many), MANY);
    assert!(matches!(many.is_complete(), Err(Error::Cancelled)));
}

#[test]
fn a_peers_goodbye_ends_a_slice_in_each_round() {
    let BacklogSessions { left, right, many, .. } = scene(patient());
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| right.disconnect("left"));
        let mut before = 0;
        while !leaving.is_finished() {
            left.progress();
            let now = ended(&many);
            // A slice for the frame, another for the round.
            assert!(now - before <= 2 * SLICE, "{} in one round", now - before);
            before = now;
        }
        leaving.join().expect("no panic").expect("it is answered");
    });
    assert!(matches!(many.is_complete(), Err(Error::PeerGone { .. })));
}

#[test]
fn a_transfer_is_used_again_after_an_error() {
    let BacklogSessions { left, right, memory, many } = scene(soft());
    many.cancel();
    assert!(matches!(many.wait(None), Err(Error::Cancelled)));
    assert!(matches!(many.error(), Some(Error::Cancelled)));
    let target = right.allocate(1, MemoryType::Host).unwrap();
    let there = right.create_transfer("left").unwrap();
    there.post_recv_batch(&posts(target, 2)).unwrap();
    many.post_send_batch(&posts(memory, 2)).unwrap();
    assert!(many.error().is_none());
    while !there.is_complete().unwrap() {
        left.progress();
    }
    while !many.is_complete().expect("the new round goes well") {}
    let (round, life) = (many.round_counts().unwrap(), many.counts().unwrap());
    assert_eq!((round.operations_done, round.bytes_done), (2, 2));
    assert_eq!(life.operations_done as usize, MANY + 2);
}

fn options() -> SessionOptions {
    soft().eager_bytes(0)
}

#[test]
fn a_thread_that_waits_beside_the_leader_checks_only_when_notified() {
    let session = open(soft().progress_thread(true));
    // The progress thread leads the second time at the latest, and nothing moves.
    for _ in 0..2 {
        let mut looks = 0;
        let deadline = session.shared.wait(
            WaitLimit::for_time(Duration::from_millis(200)),
            |_| {
                looks += 1;
                Ok(Poll::<()>::Pending)
            },
            |_, _, _| Error::Cancelled,
        );
        assert!(matches!(deadline, Err(Error::Cancelled)));
        assert!(looks < 100, "{looks} looks in 200 ms");
    }
}

/// Makes a round. Returns whether there is news for threads that wait for peers.
fn round(session: &Session) -> bool {
    let mut events = Vec::new();
    session.shared.poller().look(&mut events);
    let mut engine = session.shared.engine().expect("no fork");
    engine.progress(Instant::now(), &mut events);
    engine.poll_peers()
}

#[test]
fn a_wait_for_peers_is_notified_of_peers_and_not_of_messages() {
    let [left, right] = connected(options());
    let give_up_at = Instant::now() + PATIENCE;
    let memory = [&left, &right]
        .map(|session| session.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory"));
    let send = left.create_transfer("right").expect("it is up");
    let receive = right.create_transfer("left").expect("it is up");
    for tag in 0..20 {
        receive.post_recv(Post { memory: memory[1], offset: 0, bytes: 8, tag }).expect("it fits");
        send.post_send(Post { memory: memory[0], offset: 0, bytes: 8, tag }).expect("it fits");
        let goes_on = |transfer: &Transfer| {
            let counts = transfer.counts().expect("no fork");
            counts.operations_done < counts.operations_posted
        };
        while goes_on(&send) || goes_on(&receive) {
            assert!(!round(&left) && !round(&right));
            assert!(Instant::now() < give_up_at, "they do not arrive");
        }
    }
    let mut engine = left.shared.engine().expect("no fork");
    engine.begin_disconnect("right", Instant::now()).expect("it is up");
    assert!(engine.poll_peers(), "it is left");
    let key = engine.peer("right").expect("it is known").0;
    engine.fail_peer(key, Error::Closed);
    assert!(engine.poll_peers() && !engine.poll_peers(), "it is over, and that is reported once");
}

#[test]
fn a_transfer_answers_while_another_thread_has_the_engine() {
    let [left, _right] = connected(options());
    let memory = left.register_buffer(vec![0; 8], Access::ReadOnly).expect("memory");
    let post = Post { memory, offset: 0, bytes: 8, tag: 1 };
    let [waits, failed] = [(), ()].map(|()| left.create_transfer("right").expect("it is up"));
    failed.report_completions(1).expect("no fork");
    for transfer in [&waits, &failed] {
        transfer.post_send(post).expect("it fits");
    }
    failed.cancel();
    // A thread that waits for this engine here waits forever.
    let engine = left.shared.engine().expect("no fork");
    assert!(!waits.is_complete().expect("it goes on"));
    assert!(waits.error().is_none());
    assert_eq!(waits.counts().expect("no fork").operations_posted, 1);
    assert_eq!(waits.round_counts().expect("no fork").operations_done, 0);
    assert!(matches!(failed.is_complete(), Err(Error::Cancelled)));
    assert!(matches!(failed.wait(None), Err(Error::Cancelled)));
    assert!(matches!(failed.error(), Some(Error::Cancelled)));
    failed.report_completions(2).expect("no fork");
    left.event_fd().expect("a descriptor");
    let mut completions = Vec::new();
    assert_eq!(left.poll_completions(&mut completions, 9).expect("no fork"), 1);
    assert_eq!((completions[0].context, completions[0].rounds), (2, 1));
    drop(engine);
}

/// Has a leading thread rest. Returns whether the thread is woken when another thread releases the
/// engine, after it has done this.
fn is_woken_by(session: &Session, act: impl FnOnce(&Engine)) -> bool {
    // The thread rests for far longer than this takes on any machine.
    let now = Instant::now() + Duration::from_secs(3600);
    let mut engine = session.shared.engine().expect("no fork");
    engine.progress(now, &mut Vec::new());
    engine.rest(now);
    act(&engine);
    session.shared.poller().take_work();
    drop(engine);
    session.shared.poller().has_work()
}

#[test]
fn a_resting_leader_is_woken_when_something_is_due_sooner() {
    let session = open(options());
    assert!(!is_woken_by(&session, |_| {}));
    let (hold, held) = mpsc::channel::<()>();
    // A thread must check whether the workers are held up.
    let is_woken = is_woken_by(&session, |engine| {
        drop(engine.resources.workers.call(move || held.recv()));
    });
    assert!(is_woken);
    drop(hold);
}
