//! Buffers that a program lends to a session.

use tcpx_testkit::PATIENCE;

use super::{connected, soft};
use crate::error::RegistrationProblem;
use crate::{Access, Error, MemoryId, MemoryType, Post, Session};

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
