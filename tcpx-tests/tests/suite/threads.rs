//! Sessions of one process, used from many threads at once.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tcpx_core::{Error, MemoryType, Post, Session, SessionOptions};
use tcpx_testkit::{PATIENCE, pattern, scaled};
use tcpx_tests::sessions::{self, connect, drop_all, open, soft};

fn options(name: &str) -> SessionOptions {
    soft().name(name).chunk_bytes(65_536).peer_timeout(None)
}

fn session(name: &str) -> Session {
    open(options(name))
}

/// Moves one message and checks it.
fn exchange(from: (&Session, &str), to: (&Session, &str), bytes: u64, tag: i64) {
    let (source, target) = (
        from.0.allocate(bytes, MemoryType::Device).expect("memory"),
        to.0.allocate(bytes, MemoryType::Device).expect("memory"),
    );
    let mut data = vec![0; bytes as usize];
    pattern::fill(tag as u64, 0, &mut data);
    from.0.write_memory(source, 0, &data).expect("write");
    thread::scope(|scope| {
        scope.spawn(|| {
            let receive = to.0.create_transfer(from.1).expect("transfer");
            receive.post_recv(Post { memory: target, offset: 0, bytes, tag }).expect("post");
            receive.wait(Some(PATIENCE)).expect("receive");
        });
        let send = from.0.create_transfer(to.1).expect("transfer");
        send.post_send(Post { memory: source, offset: 0, bytes, tag }).expect("post");
        send.wait(Some(PATIENCE)).expect("send");
    });
    to.0.read_memory(target, 0, &mut data).expect("read");
    assert_eq!(pattern::first_difference(tag as u64, 0, &data), None);
    from.0.deregister_memory(source).expect("free");
    to.0.deregister_memory(target).expect("free");
}

#[test]
fn one_session_connects_and_accepts_in_two_threads_at_once() {
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let (info_a, info_b) = (a.listen().unwrap(), b.listen().unwrap());
    c.load_remote_conn_info("a", &info_a).unwrap();
    a.load_remote_conn_info("b", &info_b).unwrap();
    let together = Barrier::new(4);
    thread::scope(|scope| {
        for work in [
            Box::new(|| a.accept("c")) as Box<dyn Fn() -> tcpx_core::Result<()> + Send>,
            Box::new(|| a.connect("b")),
            Box::new(|| b.accept("a")),
            Box::new(|| c.connect("a")),
        ] {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                work().expect("connected");
            });
        }
    });
    exchange((&a, "a"), (&b, "b"), 300_000, 1);
    exchange((&a, "a"), (&c, "c"), 300_000, 2);
    exchange((&c, "c"), (&a, "a"), 300_000, 3);
    drop_all([a, b, c]);
}

#[test]
fn many_threads_post_and_wait_on_one_pair() {
    let (left, right) = (session("left"), session("right"));
    connect(&left, &right);
    thread::scope(|scope| {
        for tag in 0..8 {
            let (left, right) = ((&left, "left"), (&right, "right"));
            scope.spawn(move || {
                for round in 0..5 {
                    let bytes = 1 + 40_000 * (tag as u64 + round);
                    if tag % 2 == 0 {
                        exchange(left, right, bytes, tag)
                    } else {
                        exchange(right, left, bytes, tag)
                    }
                }
            });
        }
    });
    sessions::disconnect_both(&left, &right);
}

#[test]
fn a_thousand_messages_outstanding_in_random_order() {
    let (left, right) = (session("left"), session("right"));
    connect(&left, &right);
    let (count, bytes) = (1_000u64, 3_000u64);
    let source = left.allocate(count * bytes, MemoryType::Device).unwrap();
    let target = right.allocate(count * bytes, MemoryType::Device).unwrap();
    let mut data = vec![0; (count * bytes) as usize];
    pattern::fill(1, 0, &mut data);
    left.write_memory(source, 0, &data).unwrap();
    // Both ends post in an order of their own; 7 and 13 have no divisor in common with 1000.
    let post =
        |memory, index: u64| Post { memory, offset: index * bytes, bytes, tag: index as i64 };
    let (send, receive) =
        (left.create_transfer("right").unwrap(), right.create_transfer("left").unwrap());
    for step in 0..count {
        receive.post_recv(post(target, step * 7 % count)).unwrap();
        send.post_send(post(source, step * 13 % count)).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| send.wait(Some(PATIENCE)).expect("send"));
        receive.wait(Some(PATIENCE)).expect("receive");
    });
    right.read_memory(target, 0, &mut data).unwrap();
    assert_eq!(pattern::first_difference(1, 0, &data), None);
    drop((send, receive));
    drop_all([left, right]);
}

#[test]
fn everything_may_be_dropped_in_any_order() {
    for order in 0..4 {
        // Where an end is dropped alone, its goodbye gets no answer.
        let close_timeout = if order < 2 { scaled(Duration::from_millis(300)) } else { PATIENCE };
        let session =
            |name| Session::new(options(name).close_timeout(close_timeout)).expect("a session");
        let (left, right) = (session("left"), session("right"));
        connect(&left, &right);
        let bytes = 20_000_000;
        let source = left.allocate(bytes, MemoryType::Device).unwrap();
        let target = right.allocate(bytes, MemoryType::Device).unwrap();
        let (send, receive) =
            (left.create_transfer("right").unwrap(), right.create_transfer("left").unwrap());
        receive.post_recv(Post { memory: target, offset: 0, bytes, tag: 0 }).unwrap();
        send.post_send(Post { memory: source, offset: 0, bytes, tag: 0 }).unwrap();
        left.progress();
        right.progress();
        match order {
            0 => {
                drop(send);
                drop(left);
                assert!(
                    receive.wait(Some(PATIENCE)).is_err()
                        || receive.counts().unwrap().bytes_done == bytes
                );
                drop(right);
                drop(receive);
            }
            1 => {
                drop(right);
                let error = send.wait(Some(PATIENCE)).unwrap_err();
                assert!(matches!(error, Error::PeerGone { .. }), "{error}");
                drop((left, send));
                assert!(matches!(
                    receive.wait(Some(PATIENCE)),
                    Err(Error::Closed | Error::PeerGone { .. })
                ));
            }
            2 => {
                drop(receive);
                drop(send);
                // What was matched goes on in the background, and its memory stays in use until
                // then.
                sessions::disconnect_both(&left, &right);
                left.deregister_memory(source).unwrap();
                right.deregister_memory(target).unwrap();
            }
            _ => {
                thread::scope(|scope| {
                    scope.spawn(|| drop(left));
                    drop(right);
                });
                assert!(send.is_complete().is_err() || send.counts().is_ok());
                assert!(
                    send.post_send(Post { memory: source, offset: 0, bytes: 1, tag: 0 }).is_err()
                );
            }
        }
    }
}

#[test]
fn closing_names_the_peers_without_an_answer_and_can_be_repeated() {
    let (left, right) = (session("left"), session("right"));
    connect(&left, &right);
    exchange((&left, "left"), (&right, "right"), 100_000, 1);
    thread::scope(|scope| {
        scope.spawn(|| left.close().expect("answered"));
        right.close().expect("answered");
    });
    left.close().expect("closed already");
    assert!(matches!(left.create_transfer("right"), Err(Error::Closed | Error::PeerGone { .. })));
    assert!(matches!(left.listen(), Err(Error::Closed)));

    let impatient = options("left").close_timeout(Duration::from_millis(50));
    let left = Session::new(impatient).expect("the software plugin is always there");
    let right = session("right");
    connect(&left, &right);
    // No thread drives the other end.
    let error = left.close().expect_err("no goodbye");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert!(error.to_string().contains("no goodbye came from right"), "{error}");
    left.close().expect("closed already");
}

#[test]
fn numbers_of_peers_that_are_gone_stay_in_the_sums() {
    let (left, right) = (session("left"), session("right"));
    let bytes = 150_000;
    for round in 1..=3 {
        connect(&left, &right);
        exchange((&left, "left"), (&right, "right"), bytes, 1);
        sessions::disconnect_both(&left, &right);
        let (sent, received) = (left.stats(), right.stats());
        assert!(sent.peers.is_empty() && received.peers.is_empty());
        assert_eq!((sent.total.messages_sent, sent.total.send.bytes), (round, round * bytes));
        assert_eq!(
            (received.total.messages_received, received.total.recv.bytes),
            (round, round * bytes)
        );
        assert!(received.total.recv.fragments > 0);
        let by_nic: u64 = received.nics.iter().map(|nic| nic.recv.bytes).sum();
        assert_eq!(by_nic, round * bytes);
    }
}
