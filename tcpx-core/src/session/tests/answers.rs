//! Results of transfers after an end has closed or disconnected, tested as a table. The same table
//! is in docs/c-api/transfer.md.

use std::thread;
use std::time::Duration;

use tcpx_protocol::types::MemoryType;
use tcpx_testkit::PATIENCE;

use super::{connect, open, patient, take_turns};
use crate::{Departure, Error, MemoryId, Post, Result, Session, SessionOptions, Transfer};

/// Time that an unanswered goodbye waits.
const UNANSWERED: Duration = Duration::from_millis(20);

/// Returns options with which sends wait for their receives.
fn options() -> SessionOptions {
    patient().channels(1).eager_bytes(0)
}

/// Event that happens to the session `left`, whose peer is `right`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TestEvent {
    Close,
    CloseUnanswered,
    Disconnect,
    DisconnectUnanswered,
    PeerLeaves,
    PeerAborts,
}

use TestEvent::*;

/// Results: for an operation without a counterpart, for posts, for a new transfer.
const TABLE: [(TestEvent, &str, &str, &str); 6] = [
    (Close, "Closed", "Closed", "Closed"),
    (CloseUnanswered, "Closed", "Closed", "Closed"),
    (Disconnect, "Closed", "Closed", "UnknownPeer"),
    (DisconnectUnanswered, "Closed", "Closed", "UnknownPeer"),
    (PeerLeaves, "PeerGone", "PeerGone", "PeerGone"),
    (PeerAborts, "PeerGone", "PeerGone", "PeerGone"),
];

fn kind<T>(answer: &Result<T>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(Error::Closed) => "Closed",
        Err(Error::PeerGone { .. }) => "PeerGone",
        Err(Error::Cancelled) => "Cancelled",
        Err(Error::Deadline { .. }) => "Deadline",
        Err(Error::UnknownPeer { .. }) => "UnknownPeer",
        Err(Error::PeerState { .. }) => "PeerState",
        Err(_) => "another",
    }
}

impl TestEvent {
    fn is_unanswered(self) -> bool {
        matches!(self, CloseUnanswered | DisconnectUnanswered)
    }

    fn happen(self, left: &Session, right: &Session) {
        match self {
            Close => left.close().expect("the peer answers"),
            CloseUnanswered => assert_eq!(kind(&left.close()), "Deadline"),
            Disconnect => left.disconnect("right").expect("the peer answers"),
            DisconnectUnanswered => assert_eq!(kind(&left.disconnect("right")), "Deadline"),
            PeerLeaves => thread::scope(|scope| {
                let leaving = scope.spawn(|| right.disconnect("left"));
                while !leaving.is_finished() {
                    left.progress();
                }
                leaving.join().expect("no panic").expect("it is answered");
            }),
            PeerAborts => {
                let mut engine = right.shared.engine().expect("no fork");
                let key = engine.peer("left").expect("it is up").0;
                engine.fail_peer(key, Error::Cancelled);
                drop(engine);
                take_turns(&[left], "the abort comes", || left.stats().peers[0].state != "up");
            }
        }
    }
}

fn post(memory: MemoryId, tag: i64) -> Post {
    Post { memory, offset: 0, bytes: 100, tag }
}

/// Checks every call on a transfer whose result is settled.
fn assert_answers(what: &str, transfer: &Transfer, memory: MemoryId, outcome: &str, posts: &str) {
    let waited = transfer.wait(Some(PATIENCE));
    assert_eq!(kind(&waited), outcome, "{what}: wait");
    assert_eq!(kind(&transfer.wait(None)), outcome, "{what}: wait without a limit");
    assert_eq!(kind(&transfer.is_complete()), outcome, "{what}: is_complete");
    assert_eq!(kind(&transfer.error().map_or(Ok(()), Err)), outcome, "{what}: error");
    let counts = transfer.counts().expect("counts are always there");
    assert_eq!(counts.operations_done, counts.operations_posted, "{what}: counts");
    assert_eq!(transfer.round_counts().unwrap(), counts, "{what}: counts of the round");
    assert_eq!(kind(&transfer.post_send(post(memory, 9))), posts, "{what}: post_send");
    assert_eq!(kind(&transfer.post_recv(post(memory, 9))), posts, "{what}: post_recv");
    transfer.cancel();
    assert_eq!(kind(&transfer.wait(None)), outcome, "{what}: a cancel changes nothing");
}

#[test]
fn transfers_answer_as_the_table_says() {
    for (event, unmatched, posts, create) in TABLE {
        let answered = if event.is_unanswered() { UNANSWERED } else { PATIENCE };
        let left = open(options().close_timeout(answered));
        let right = open(options().progress_thread(!event.is_unanswered()));
        connect(&left, &right);
        let memory = left.allocate(1_000, MemoryType::Host).unwrap();
        let transfers = [(); 5].map(|()| left.create_transfer("right").unwrap());
        let [idle, done, cancelled, sends, receives] = &transfers;

        let there = right.create_transfer("left").unwrap();
        let target = right.allocate(1_000, MemoryType::Host).unwrap();
        there.post_recv(post(target, 1)).unwrap();
        done.post_send(post(memory, 1)).unwrap();
        cancelled.post_send(post(memory, 2)).unwrap();
        cancelled.cancel();
        for transfer in [&there, done] {
            while !transfer.is_complete().expect("it goes well") {
                left.progress();
                right.progress();
            }
        }
        sends.post_send(post(memory, 3)).unwrap();
        receives.post_recv(post(memory, 4)).unwrap();
        event.happen(&left, &right);

        let what = |which: &str| format!("{event:?}, {which}");
        assert_answers(&what("nothing posted"), idle, memory, "ok", posts);
        assert_answers(&what("done"), done, memory, "ok", posts);
        assert_answers(&what("cancelled before"), cancelled, memory, "Cancelled", posts);
        assert_answers(&what("a send"), sends, memory, unmatched, posts);
        assert_answers(&what("a receive"), receives, memory, unmatched, posts);
        assert_eq!(kind(&left.create_transfer("right")), create, "{event:?}");
        if matches!(event, Close | CloseUnanswered) {
            assert_eq!(kind(&left.connect("right")), "Closed", "{event:?}");
            assert_eq!(kind(&left.accept("another")), "Closed", "{event:?}");
            assert_eq!(kind(&left.close()), "ok", "{event:?}, once more");
        }
        // The remaining objects return the same results without their session.
        drop(left);
        assert_answers(&what("dropped, done"), done, memory, "ok", "Closed");
        assert_answers(&what("dropped, a receive"), receives, memory, unmatched, "Closed");
    }
}

/// Bytes are under way when the peer does not answer the goodbye. The transfer reports that the
/// peer is gone, and a second wait does not report that it must wait again.
#[test]
fn a_message_under_way_ends_with_the_peer_when_a_disconnect_is_not_answered() {
    let left = open(options().close_timeout(UNANSWERED));
    let right = open(options());
    connect(&left, &right);
    let bytes = 200_000_000;
    let source = left.allocate(bytes, MemoryType::Device).unwrap();
    let target = right.allocate(bytes, MemoryType::Device).unwrap();
    let message = |memory| Post { memory, offset: 0, bytes, tag: 1 };
    let receive = right.create_transfer("left").unwrap();
    receive.post_recv(message(target)).unwrap();
    right.progress();
    let send = left.create_transfer("right").unwrap();
    send.post_send(message(source)).unwrap();
    while send.counts().unwrap().chunks_posted == 0 {
        right.progress();
        left.progress();
    }
    assert_eq!(kind(&send.wait(Some(Duration::ZERO))), "Deadline", "it goes on");
    assert_eq!(kind(&left.disconnect("right")), "Deadline");
    let error = send.wait(None).expect_err("it was not sent");
    let Error::PeerGone { how: Departure::Unanswered(_), .. } = &error else {
        panic!("{error}");
    };
    assert!(error.to_string().ends_with("[TCPX-726]"), "{error}");
    left.deregister_memory(source).expect("nothing uses it");
}

#[test]
fn threads_inside_calls_are_told_that_another_has_closed_the_session() {
    let left = open(options());
    let right = open(options().progress_thread(true));
    connect(&left, &right);
    // No thread drives this session, so that connecting to it takes as long as it may.
    let silent = open(options());
    left.load_remote_conn_info("silent", &silent.listen().unwrap()).unwrap();
    left.listen().unwrap();
    let memory = left.allocate(1_000, MemoryType::Host).unwrap();
    let transfer = left.create_transfer("right").unwrap();
    transfer.post_recv(post(memory, 1)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| kind(&transfer.wait(None)));
        let connecting = scope.spawn(|| kind(&left.connect("silent")));
        let accepting = [(); 2].map(|()| scope.spawn(|| kind(&left.accept("absent"))));
        // The session refuses one of two accepts of a name at once: then the other is inside.
        while left.stats().peers.len() < 2 || !accepting.iter().any(|call| call.is_finished()) {
            thread::yield_now();
        }
        left.close().expect("the peer answers");
        assert_eq!(waiting.join().unwrap(), "Closed");
        assert_eq!(connecting.join().unwrap(), "Closed");
        let mut accepts = accepting.map(|call| call.join().unwrap());
        accepts.sort_unstable();
        assert_eq!(accepts, ["Closed", "PeerState"]);
    });
}
