//! Tests of short messages behind a long one to the same peer, and of a long one among short ones
//! without end. One thread drives both ends, and counts show which message was first.
//!
//! Tests of peers that come in for another device.

use std::sync::{Arc, Mutex, PoisonError};

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::MemoryType;
use tcpx_protocol::types::memory::Device;

use super::{connected, open, soft, take_turns};
use crate::engine::meeting::accepting::MOST_HANDED_OVER;
use crate::engine::meeting::device_context::DeviceContext;
use crate::{Error, PeerState, Post, Session, SessionOptions, Transfer};

const LONG_BYTES: u64 = 64 << 20;
const SHORT_BYTES: u64 = 64;
/// Bytes that are dealt ahead of a short message: a section of 4 MiB, and less than that to keep
/// windows full. The same amount may have been sent meanwhile.
const AHEAD_BYTES: u64 = 8 << 20;

struct ConnectedSessions {
    left: Session,
    right: Session,
    memory: MemoryType,
}

/// Message under way, at both ends.
struct Message {
    send: Transfer,
    receive: Transfer,
}

impl ConnectedSessions {
    fn new(memory: MemoryType) -> Self {
        let [left, right] = connected(soft().channels(2).chunk_bytes(64 << 10));
        Self { left, right, memory }
    }

    fn allocate(&self, bytes: u64) -> [Post; 2] {
        [&self.left, &self.right].map(|session| {
            let memory = session.allocate(bytes, self.memory).expect("there is room");
            Post { memory, offset: 0, bytes, tag: 1 }
        })
    }

    fn message(&self) -> Message {
        Message {
            send: self.left.create_transfer("right").expect("it is up"),
            receive: self.right.create_transfer("left").expect("it is up"),
        }
    }

    fn post(message: &Message, [from, to]: [Post; 2]) {
        message.receive.post_recv(to).expect("post_recv");
        message.send.post_send(from).expect("post_send");
    }

    fn until(&self, what: &str, is_over: impl FnMut() -> bool) {
        take_turns(&[&self.left, &self.right], what, is_over);
    }
}

impl Message {
    fn is_complete(&self) -> bool {
        [&self.send, &self.receive].iter().all(|end| end.is_complete().expect("nothing fails"))
    }
}

fn a_short_message_overtakes(memory: MemoryType) {
    let scene = ConnectedSessions::new(memory);
    let (long, short) = (scene.message(), scene.message());
    ConnectedSessions::post(&long, scene.allocate(LONG_BYTES));
    let done = || long.receive.counts().expect("it is there").bytes_done;
    scene.until("the long one begins", || done() > 0);
    let begun = done();
    ConnectedSessions::post(&short, scene.allocate(SHORT_BYTES));
    scene.until("the short one ends", || short.is_complete());
    let done = done();
    assert!(done - begun <= AHEAD_BYTES, "{done} bytes, {begun} before");
    scene.until("the long one ends", || long.is_complete());
}

#[test]
fn a_short_message_does_not_wait_for_a_long_one_in_host_memory() {
    a_short_message_overtakes(MemoryType::Host);
}

#[test]
fn a_short_message_does_not_wait_for_a_long_one_in_device_memory() {
    a_short_message_overtakes(MemoryType::Device);
}

#[test]
fn a_long_message_does_not_wait_until_no_more_short_ones_come() {
    let scene = ConnectedSessions::new(MemoryType::Device);
    let long = scene.message();
    let posts = scene.allocate(LONG_BYTES);
    let shorts: Vec<(Message, [Post; 2])> =
        (0..64).map(|_| (scene.message(), scene.allocate(SHORT_BYTES))).collect();
    shorts.iter().for_each(|(short, posts)| ConnectedSessions::post(short, *posts));
    ConnectedSessions::post(&long, posts);
    let mut ended = 0u64;
    scene.until("the long one ends", || {
        for (short, posts) in shorts.iter().filter(|(short, _)| short.is_complete()) {
            ended += 1;
            ConnectedSessions::post(short, *posts);
        }
        long.is_complete()
    });
    assert!(ended > 0, "nor do they wait for it");
    scene.until("the short ones end", || shorts.iter().all(|(short, _)| short.is_complete()));
}

fn options() -> SessionOptions {
    soft().channels(1).accept_all(true)
}

/// Returns the number of peers on their way.
fn handed_over(front: &Session) -> usize {
    front.shared.engine().expect("no fork").meeting.handed_over()
}

/// An engine of a device takes long to be made: peers that want it wait, up to a number.
#[test]
fn those_who_wait_for_a_member_are_bounded() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = Arc::clone(&gate);
    let mut context = DeviceContext::new(&options()).expect("random bytes");
    context.hand_over = Some(Arc::new(move |device, handshake| {
        drop(waits.lock());
        handshake.refuse(format!("{device} is no more"));
    }));
    let front = Session::open(options(), None, context).expect("soft");
    let info = ConnInfo::decode(&front.listen().expect("listen")).expect("own bytes load");
    let info = ConnInfo { session: Device::Gpu(3).session_of(info.session), ..info };
    let client = open(options());
    let names: Vec<String> = (0..=MOST_HANDED_OVER).map(|number| format!("x{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        client.shared.engine().expect("no fork").know(name, info.clone()).expect("it is open");
        client.start_connect(name).expect("it is known");
        // They come one after the other: an address has a share of the unauthenticated connections.
        take_turns(&[&front, &client], "they come in", || {
            handed_over(&front) >= (number + 1).min(MOST_HANDED_OVER)
        });
    }
    let failures = |word: &str| {
        let has_failed = |name: &&String| match client.peer_state(name).expect("it is known") {
            PeerState::Failed(Error::Handshake { reason, .. }) => {
                assert!(reason.contains("gpu3"), "{reason}");
                reason.contains(word)
            }
            PeerState::Failed(error) => panic!("{error}"),
            _ => false,
        };
        names.iter().filter(has_failed).count()
    };
    let progress_until = |word: &str, count: usize| {
        take_turns(&[&front, &client], word, || failures(word) >= count);
    };
    progress_until("too many", 1);
    assert_eq!(failures("no more"), 0, "the others wait");
    drop(closed);
    progress_until("no more", MOST_HANDED_OVER);
    assert_eq!(failures("too many"), 1);
}
