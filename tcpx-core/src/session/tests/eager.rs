//! Tests of small messages on the control link. One thread drives both sessions, so tests count
//! rounds, not time.

use std::thread;

use tcpx_protocol::types::MemoryType;
use tcpx_testkit::PATIENCE;

use super::{connect, open, soft, take_turns};
use crate::{Error, MemoryId, Post, Session, SessionOptions, Transfer};

const BYTES: u64 = 5000;

fn options() -> SessionOptions {
    soft().channels(1).eager_bytes(8192)
}

/// Two connected sessions, with memory of one kind that holds a few messages.
struct EagerSessions {
    left: Session,
    right: Session,
    source: MemoryId,
    target: MemoryId,
}

fn scene(left: SessionOptions, right: SessionOptions, memory: MemoryType) -> EagerSessions {
    let (left, right) = (open(left), open(right));
    connect(&left, &right);
    let [source, target] = [&left, &right].map(|at| at.allocate(10 * BYTES, memory).unwrap());
    left.write_memory(source, 0, &bytes_at(0, 10 * BYTES)).unwrap();
    EagerSessions { left, right, source, target }
}

/// Returns the bytes to send from this place on. No byte is 0.
fn bytes_at(place: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| ((place * BYTES + at) % 251) as u8 + 1).collect()
}

/// Returns a message that has this place in the memory of either end.
fn post(memory: MemoryId, place: u64, bytes: u64, tag: i64) -> Post {
    Post { memory, offset: place * BYTES, bytes, tag }
}

impl EagerSessions {
    fn new(memory: MemoryType) -> Self {
        scene(options(), options(), memory)
    }

    fn send(&self, place: u64, bytes: u64, tag: i64) -> Transfer {
        let send = self.left.create_transfer("right").unwrap();
        send.post_send(post(self.source, place, bytes, tag)).unwrap();
        send
    }

    fn receive(&self, place: u64, bytes: u64, tag: i64) -> Transfer {
        let receive = self.right.create_transfer("left").unwrap();
        receive.post_recv(post(self.target, place, bytes, tag)).unwrap();
        receive
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        take_turns(&[&self.left, &self.right], what, is_so);
    }

    fn complete(&self, transfer: &Transfer) {
        self.until("it ends", || is_done(transfer));
        transfer.wait(None).expect("it goes well");
    }

    /// Makes rounds until left has seen all receives so far.
    fn announce(&self, receives: usize) {
        self.until("it is announced", || self.left.stats().peers[0].announced == receives);
        assert_eq!(self.right.stats().peers[0].unannounced, 0);
        let kept = self.left.stats().kept_for_peers_bytes;
        assert!((1..=256 << 20).contains(&kept), "{kept} bytes");
    }

    /// Makes rounds until right keeps what left has sent ahead.
    fn arrive(&self) {
        self.until("it arrives", || {
            let (left, right) = (self.left.stats(), self.right.stats());
            right.peers[0].eager_kept == left.peers[0].eager_unreceived
        });
    }

    fn check(&self, from: u64, to: u64, bytes: u64) {
        let mut received = vec![0; bytes as usize];
        self.right.read_memory(self.target, to * BYTES, &mut received).unwrap();
        assert!(received == bytes_at(from, bytes), "other bytes arrived");
    }
}

fn is_done(transfer: &Transfer) -> bool {
    let counts = transfer.counts().expect("counts are always there");
    counts.operations_done == counts.operations_posted
}

#[test]
fn a_message_is_there_before_its_receive() {
    for memory in [MemoryType::Host, MemoryType::Device] {
        let scene = EagerSessions::new(memory);
        let send = scene.send(0, BYTES, 1);
        assert!(is_done(&send), "its bytes have left when it is posted");
        scene.arrive();
        let receive = scene.receive(1, BYTES, 1);
        assert!(is_done(&receive), "they were there already");
        scene.check(0, 1, BYTES);
        for counts in [send.counts().unwrap(), receive.counts().unwrap()] {
            assert_eq!((counts.chunks_posted, counts.chunks_done), (1, 1), "{counts:?}");
            assert_eq!(counts.bytes_done, BYTES);
        }
        let (sent, received) = (scene.left.stats().total, scene.right.stats().total);
        assert_eq!((sent.eager_sent.messages, sent.eager_sent.bytes), (1, BYTES));
        assert_eq!(received.eager_received, sent.eager_sent);
        assert_eq!((sent.messages_sent, received.messages_received), (1, 1));
        assert_eq!((sent.send.chunks, received.recv.chunks), (0, 0), "no plugin was asked");
        let kept = |session: &Session| session.stats().peers[0].eager_kept;
        assert_eq!(kept(&scene.right), 0);
    }
}

#[test]
fn an_announced_receive_gets_its_message_in_one_frame() {
    for memory in [MemoryType::Host, MemoryType::Device] {
        let scene = EagerSessions::new(memory);
        let receive = scene.receive(1, BYTES, 1);
        scene.announce(1);
        let send = scene.send(0, BYTES, 1);
        assert!(is_done(&send));
        scene.complete(&receive);
        scene.check(0, 1, BYTES);
        let received = scene.right.stats().total;
        assert_eq!((received.eager_received.messages, received.recv.chunks), (1, 0));
    }
}

#[test]
fn an_announcement_and_its_message_cross() {
    let scene = EagerSessions::new(MemoryType::Device);
    for round in 0..20 {
        let receive = scene.receive(1, BYTES, 1);
        let send = scene.send(round % 2 * 3, BYTES, 1);
        assert!(is_done(&send), "left has heard of no receive");
        scene.complete(&receive);
        scene.check(round % 2 * 3, 1, BYTES);
    }
    scene.until("the books agree", || scene.left.stats().peers[0].eager_unreceived == 0);
}

#[test]
fn a_small_message_passes_a_large_one() {
    const LARGE: u64 = 64 << 20;
    let chunked = || options().chunk_bytes(64 << 10);
    let scene = scene(chunked(), chunked(), MemoryType::Host);
    let large = |session: &Session| Post {
        memory: session.allocate(LARGE, MemoryType::Host).unwrap(),
        offset: 0,
        bytes: LARGE,
        tag: 9,
    };
    let slow = scene.right.create_transfer("left").unwrap();
    slow.post_recv(large(&scene.right)).unwrap();
    let quick = scene.receive(1, 64, 1);
    scene.announce(2);
    let ahead = scene.left.create_transfer("right").unwrap();
    ahead.post_send(large(&scene.left)).unwrap();
    scene.until("nothing moves", || slow.counts().unwrap().chunks_done > 0);
    scene.send(0, 64, 1);
    scene.complete(&quick);
    scene.check(0, 1, 64);
    let counts = slow.counts().unwrap();
    assert!(counts.chunks_done < counts.chunks_posted / 2, "it waited: {counts:?}");
    scene.complete(&slow);
}

#[test]
fn messages_without_room_wait_until_there_is_some() {
    let small = || options().eager_buffer_bytes(2 * (160 + 100));
    let scene = scene(small(), small(), MemoryType::Host);
    let sends = [0, 1, 2].map(|place| scene.send(place, 100, 1));
    assert_eq!(sends.each_ref().map(is_done), [true, true, false]);
    scene.arrive();
    for place in 0..3 {
        let receive = scene.receive(place + 3, 100, 1);
        scene.complete(&receive);
        scene.check(place, place + 3, 100);
    }
    scene.complete(&sends[2]);
    scene.until("room is given back", || scene.left.stats().peers[0].eager_unreceived == 0);
    assert!(is_done(&scene.send(0, 100, 1)), "it goes ahead again");
}

#[test]
fn a_receive_of_another_size_fails_and_the_next_one_is_met() {
    let scene = EagerSessions::new(MemoryType::Device);
    let mismatch = |receive: &Transfer| {
        let error = receive.wait(None).expect_err("it does not fit");
        let sizes = matches!(error, Error::SizeMismatch { send_bytes: 100, recv_bytes: 50, .. });
        assert!(sizes, "{error}");
    };
    let sends = [0, 0].map(|place| scene.send(place, 100, 1));
    assert!(sends.iter().all(is_done), "their receives are unknown");
    scene.arrive();
    mismatch(&scene.receive(1, 50, 1));
    scene.complete(&scene.receive(2, 100, 1));
    scene.check(0, 2, 100);
    let mut untouched = [7; 50];
    scene.right.read_memory(scene.target, BYTES, &mut untouched).unwrap();
    assert_eq!(untouched, [0; 50]);
    // An announced receive fails at both ends.
    let receive = scene.receive(1, 50, 1);
    scene.announce(1);
    let send = scene.send(0, 100, 1);
    mismatch(&send);
    scene.until("it ends", || is_done(&receive));
    mismatch(&receive);
}

#[test]
fn an_end_that_wants_no_messages_on_the_link_gets_none() {
    for (left, right) in [(0, 8192), (8192, 0)] {
        let scene =
            scene(options().eager_bytes(left), options().eager_bytes(right), MemoryType::Host);
        let send = scene.send(0, BYTES, 1);
        assert!(!is_done(&send), "it waits for its receive");
        let receive = scene.receive(1, BYTES, 1);
        scene.complete(&receive);
        scene.complete(&send);
        assert_eq!(scene.left.stats().total.eager_sent.messages, 0);
        assert_eq!(scene.left.stats().total.send.chunks, 1);
    }
}

#[test]
fn longer_messages_and_large_batches_go_over_the_channels() {
    let scene = EagerSessions::new(MemoryType::Host);
    let batch = |memory| (0..9).map(|tag| post(memory, tag as u64, 100, tag)).collect::<Vec<_>>();
    let sends = scene.left.create_transfer("right").unwrap();
    sends.post_send_batch(&batch(scene.source)).unwrap();
    assert_eq!(sends.counts().unwrap().operations_done, 0);
    let receives = scene.right.create_transfer("left").unwrap();
    receives.post_recv_batch(&batch(scene.target)).unwrap();
    scene.complete(&receives);
    let long = scene.send(0, 8193, 20);
    assert!(!is_done(&long));
    scene.complete(&scene.receive(0, 8193, 20));
    assert_eq!(scene.left.stats().total.eager_sent.messages, 0);
}

#[test]
fn messages_of_no_bytes_go_ahead_too() {
    let scene = EagerSessions::new(MemoryType::Host);
    let sends = [(); 3].map(|()| scene.send(0, 0, 1));
    assert!(sends.iter().all(is_done));
    scene.arrive();
    for _ in sends {
        scene.complete(&scene.receive(1, 0, 1));
    }
}

#[test]
fn leaving_waits_until_eager_messages_are_received() {
    let patient = || options().close_timeout(PATIENCE);
    let scene = scene(patient(), patient(), MemoryType::Device);
    let sends = [0, 1].map(|place| scene.send(place, BYTES, 1));
    assert!(sends.iter().all(is_done));
    thread::scope(|scope| {
        let leaving = scope.spawn(|| scene.left.disconnect("right"));
        let kept = || scene.right.stats().peers[0].eager_kept;
        while kept() < 2 {
            scene.right.progress();
        }
        for place in [0, 1] {
            assert!(!leaving.is_finished(), "it has left");
            assert!(is_done(&scene.receive(place + 3, BYTES, 1)));
        }
        while !leaving.is_finished() {
            scene.right.progress();
        }
        leaving.join().expect("no panic").expect("it is answered");
    });
    scene.check(1, 4, BYTES);
}

#[test]
fn two_leaving_ends_do_not_wait_for_messages_without_a_receive() {
    let patient = || options().close_timeout(PATIENCE);
    let scene = scene(patient(), patient(), MemoryType::Host);
    scene.send(0, BYTES, 1);
    let back = scene.right.create_transfer("left").unwrap();
    back.post_send(post(scene.target, 0, BYTES, 1)).unwrap();
    assert!(is_done(&back));
    thread::scope(|scope| {
        let left = scope.spawn(|| scene.left.disconnect("right"));
        scene.right.disconnect("left").expect("it is answered");
        left.join().expect("no panic").expect("it is answered");
    });
}

#[test]
fn a_send_that_went_ahead_is_not_withdrawn_and_its_memory_is_free() {
    let scene = EagerSessions::new(MemoryType::Host);
    let send = scene.send(0, BYTES, 1);
    scene.left.write_memory(scene.source, 0, &[0; BYTES as usize]).expect("nothing uses it");
    send.cancel();
    send.wait(None).expect("it was done before");
    scene.complete(&scene.receive(1, BYTES, 1));
    scene.check(0, 1, BYTES);
}

/// The message's sender makes no more rounds, for it has nothing to wait for.
#[test]
fn a_message_of_no_bytes_that_has_ended_leaves_without_another_round() {
    let EagerSessions { left, right, source, target } =
        scene(options(), options().progress_thread(true), MemoryType::Host);
    let word = |memory, tag| post(memory, 0, 0, tag);
    let awaited: Vec<_> = (1..=3)
        .map(|tag| {
            let receive = right.create_transfer("left").unwrap();
            receive.post_recv(word(target, tag)).unwrap();
            receive
        })
        .collect();
    // A later message shows that the announcements have arrived.
    let behind = left.create_transfer("right").unwrap();
    behind.post_recv(word(source, 9)).unwrap();
    right.create_transfer("left").unwrap().post_send(word(target, 9)).unwrap();
    behind.wait(Some(PATIENCE)).unwrap();
    for tag in 1..=3 {
        let send = left.create_transfer("right").unwrap();
        send.post_send(word(source, tag)).unwrap();
        assert!(send.is_complete().unwrap());
    }
    for receive in awaited {
        receive.wait(Some(PATIENCE)).unwrap();
    }
}
