//! Short messages behind a long one to the same peer, and a long one among short ones without end.
//! One thread drives both ends, and counts tell who was first.

use tcpx_protocol::types::MemoryType;

use super::{connected, soft, take_turns};
use crate::{Post, Session, Transfer};

const LONG_BYTES: u64 = 64 << 20;
const SHORT_BYTES: u64 = 64;
/// What is dealt ahead of a short message: a section of 4 MiB, and what keeps windows full, which
/// is less. As much again may have been sent meanwhile.
const AHEAD_BYTES: u64 = 8 << 20;

struct Scene {
    left: Session,
    right: Session,
    memory: MemoryType,
}

/// A message under way, at both ends.
struct Message {
    send: Transfer,
    receive: Transfer,
}

impl Scene {
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
    let scene = Scene::new(memory);
    let (long, short) = (scene.message(), scene.message());
    Scene::post(&long, scene.allocate(LONG_BYTES));
    let done = || long.receive.counts().expect("it is there").bytes_done;
    scene.until("the long one begins", || done() > 0);
    let begun = done();
    Scene::post(&short, scene.allocate(SHORT_BYTES));
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
    let scene = Scene::new(MemoryType::Device);
    let long = scene.message();
    let posts = scene.allocate(LONG_BYTES);
    let shorts: Vec<(Message, [Post; 2])> =
        (0..64).map(|_| (scene.message(), scene.allocate(SHORT_BYTES))).collect();
    shorts.iter().for_each(|(short, posts)| Scene::post(short, *posts));
    Scene::post(&long, posts);
    let mut ended = 0u64;
    scene.until("the long one ends", || {
        for (short, posts) in shorts.iter().filter(|(short, _)| short.is_complete()) {
            ended += 1;
            Scene::post(short, *posts);
        }
        long.is_complete()
    });
    assert!(ended > 0, "nor do they wait for it");
    scene.until("the short ones end", || shorts.iter().all(|(short, _)| short.is_complete()));
}
