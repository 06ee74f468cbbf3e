//! Tests of scattered small sends in a session that has little memory to gather them in.
//!
//! Tests of buffers that a program lends to a session.

use std::thread;

use tcpx_testkit::PATIENCE;

use super::{connect, connected, open, part, patient, soft, take_turns};
use crate::error::RegistrationProblem;
use crate::{Access, Error, MemoryId, MemoryType, Post, Session, StagingMemory};

const CHUNK_BYTES: u32 = 64 << 10;
const MESSAGES: u64 = 200;
const MESSAGE_BYTES: u64 = 1000;
/// Distance from one message to the next at the sender.
const STEP: u64 = 1500;

fn session(staging_bytes: u64) -> Session {
    open(patient().channels(2).chunk_bytes(CHUNK_BYTES).staging_bytes(staging_bytes))
}

/// Sends scattered messages from left to right, and checks every byte.
fn send_scattered(left: &Session, right: &Session, memory: MemoryType) {
    let [source, target] = [left, right]
        .map(|session| session.allocate(MESSAGES * STEP, memory).expect("there is room"));
    let pattern: Vec<u8> = (0..MESSAGES * STEP).map(|at| (at * 7 + at / 256) as u8).collect();
    left.write_memory(source, 0, &pattern).expect("nothing is posted");
    let posts = |memory| -> Vec<Post> {
        let post = |at: u64| Post { memory, offset: at * STEP, bytes: MESSAGE_BYTES, tag: 1 };
        (0..MESSAGES).map(post).collect()
    };
    let receive = right.create_transfer("left").expect("it is up");
    let send = left.create_transfer("right").expect("it is up");
    receive.post_recv_batch(&posts(target)).expect("they fit");
    // The receives come first, so that all are matched in one call.
    take_turns(&[left, right], "the receives are announced", || {
        left.stats().peers[0].announced == MESSAGES as usize
    });
    send.post_send_batch(&posts(source)).expect("they fit");
    thread::scope(|scope| {
        let sent = scope.spawn(|| send.wait(Some(PATIENCE)));
        receive.wait(Some(PATIENCE)).expect("everything arrives");
        sent.join().expect("no panic").expect("everything is sent");
    });
    let mut received = vec![0; (MESSAGES * STEP) as usize];
    right.read_memory(target, 0, &mut received).expect("nothing is posted");
    let steps = pattern.chunks(STEP as usize).zip(received.chunks(STEP as usize));
    for (at, (sent, received)) in steps.enumerate() {
        let bytes = MESSAGE_BYTES as usize;
        assert_eq!(sent[..bytes], received[..bytes], "message {at}");
    }
    left.deregister_memory(source).expect("nothing is posted");
    right.deregister_memory(target).expect("nothing is posted");
}

fn bytes(session: &Session) -> [u64; 2] {
    let StagingMemory { allocated_bytes, used_bytes, .. } = session.stats().staging_memory;
    [used_bytes, allocated_bytes]
}

#[test]
fn memory_for_one_slot_serves_one_channel_and_then_another_peers() {
    let slot = u64::from(CHUNK_BYTES);
    let (left, right) = (session(slot + 100), session(0));
    assert_eq!(left.stats().staging_memory.limit_bytes, slot + 100);
    for memory in [MemoryType::Device, MemoryType::Device] {
        connect(&left, &right);
        assert_eq!(bytes(&left)[0], 0, "nothing was gathered yet");
        send_scattered(&left, &right, memory);
        assert_eq!(bytes(&left), [slot; 2], "one slot, for one of two channels");
        let [with, without] = {
            let peer = &left.stats().peers[0];
            [0, 1].map(|channel| peer.channels[channel].send.gathered)
        };
        assert!(with > 0 && without == 0, "{with} and {without} chunks were gathered");
        part(&left, &right);
        assert_eq!(bytes(&left), [0, slot], "it is kept for others");
    }
    // The other kind of memory gets nothing: all allowed memory is allocated.
    connect(&left, &right);
    send_scattered(&left, &right, MemoryType::Host);
    assert_eq!(bytes(&left), [0, slot]);
    assert_eq!(bytes(&right), [0; 2]);
    part(&left, &right);
}

#[test]
fn without_staging_memory_everything_is_sent_from_where_it_lies() {
    let (left, right) = (session(0), session(0));
    connect(&left, &right);
    send_scattered(&left, &right, MemoryType::Device);
    let sent = left.stats().total.send;
    assert_eq!((sent.gathered, sent.chunks), (0, MESSAGES));
    assert_eq!(bytes(&left), [0; 2]);
    part(&left, &right);
}

#[test]
fn each_channel_has_its_slots_while_there_is_memory() {
    let (left, right) = (session(64 << 20), session(0));
    connect(&left, &right);
    send_scattered(&left, &right, MemoryType::Device);
    let sent = left.stats().total.send;
    assert!(sent.gathered > 1 && sent.chunks < MESSAGES / 10, "{sent:?}");
    let [used, allocated] = bytes(&left);
    assert!(used > u64::from(CHUNK_BYTES) && used == allocated, "{used} of {allocated}");
    part(&left, &right);
}

/// Several chunks, and a bit.
const BYTES: usize = 70_001;

fn ends() -> [Session; 2] {
    connected(soft().chunk_bytes(16 << 10).progress_thread(true))
}

fn post(memory: MemoryId) -> Post {
    Post { memory, offset: 0, bytes: BYTES as u64, tag: 1 }
}

fn message() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_lent_buffer_comes_back_with_what_was_received() {
    let [left, right] = ends();
    let from = left.register_buffer(message(), Access::ReadOnly).expect("it fits");
    let given = vec![0xee; BYTES].into_boxed_slice();
    let place = given.as_ptr();
    let to = right.register_buffer(given, Access::ReadWrite).expect("it fits");
    let info = right.memory_info(to).expect("it is registered");
    assert_eq!((info.address, info.bytes), (place.addr() as u64, BYTES as u64));
    assert_eq!((info.memory, info.access), (MemoryType::Host, Access::ReadWrite));

    let receive = right.create_transfer("left").expect("it is up");
    receive.post_recv(post(to)).expect("it fits");
    let send = left.create_transfer("right").expect("it is up");
    send.post_send(post(from)).expect("it fits");
    receive.wait(Some(PATIENCE)).expect("it arrives");
    send.wait(Some(PATIENCE)).expect("it leaves");

    let taken = right.take_buffer(to).expect("nothing uses it any more");
    assert_eq!(taken.as_ptr(), place, "the buffer itself, not a copy");
    assert!(*taken == *message(), "not what was sent");
    assert!(*left.take_buffer(from).expect("nothing uses it any more") == *message());
    let again = right.take_buffer(to);
    assert!(matches!(again, Err(Error::UnknownRegistration { id }) if id == to), "{again:?}");
}

#[test]
fn only_a_lent_buffer_can_be_taken_and_only_one_to_write_is_received_into() {
    let [left, _right] = ends();
    let allocated = left.allocate(10, MemoryType::Host).expect("there is room");
    let refused = left.take_buffer(allocated);
    let problem = RegistrationProblem::NotLent;
    assert!(
        matches!(refused, Err(Error::Registration { problem: found, .. }) if found == problem),
        "{refused:?}"
    );
    left.memory_info(allocated).expect("it is still there");

    let sent_only = left.register_buffer(message(), Access::ReadOnly).expect("it fits");
    let refused = left.create_transfer("right").expect("it is up").post_recv(post(sent_only));
    let problem = RegistrationProblem::ReadOnly;
    assert!(
        matches!(refused, Err(Error::Registration { problem: found, .. }) if found == problem),
        "{refused:?}"
    );
    left.write_memory(sent_only, 3, b"own").expect("it is the session's, and nothing is posted");
    left.deregister_memory(sent_only).expect("this frees it as well");
    let empty = left.register_buffer(Vec::new(), Access::ReadOnly);
    let problem = RegistrationProblem::Empty;
    assert!(
        matches!(empty, Err(Error::Registration { problem: found, .. }) if found == problem),
        "{empty:?}"
    );
}

#[test]
fn a_session_that_is_dropped_takes_the_buffer_of_an_open_receive_along() {
    let [left, right] = ends();
    let to = right.register_buffer(vec![0; BYTES], Access::ReadWrite).expect("it fits");
    let receive = right.create_transfer("left").expect("it is up");
    receive.post_recv(post(to)).expect("it fits");
    drop((receive, right));
    let from = left.register_buffer(message(), Access::ReadOnly).expect("it fits");
    let refused = left.create_transfer("right").and_then(|transfer| {
        transfer.post_send(post(from))?;
        transfer.wait(Some(PATIENCE))
    });
    assert!(matches!(refused, Err(Error::PeerGone { .. })), "{refused:?}");
    let taken = left.take_buffer(from).expect("its peer is gone, so nothing uses it");
    assert!(*taken == *message());
}
