//! Large transfers are withdrawn in slices, one in a round. Nothing here reads a clock: what one
//! call does is counted.

use tcpx_protocol::peer::SLICE;
use tcpx_protocol::types::MemoryType;

use super::{connected, patient, soft, uses};
use crate::{Error, MemoryId, Post, Session, SessionOptions, Transfer};

const MANY: usize = 3 * SLICE + 5;

fn posts(memory: MemoryId, count: usize) -> Vec<Post> {
    vec![Post { memory, offset: 0, bytes: 1, tag: 7 }; count]
}

fn ended(transfer: &Transfer) -> usize {
    transfer.counts().expect("counts are always there").operations_done as usize
}

struct Scene {
    left: Session,
    right: Session,
    memory: MemoryId,
    /// Many sends of left, without a counterpart.
    many: Transfer,
}

fn scene(options: SessionOptions) -> Scene {
    let [left, right] = connected(options.channels(1));
    let memory = left.allocate(1, MemoryType::Host).unwrap();
    let many = left.create_transfer("right").unwrap();
    many.post_send_batch(&posts(memory, MANY)).unwrap();
    Scene { left, right, memory, many }
}

#[test]
fn a_cancel_ends_a_slice_and_every_round_another() {
    let Scene { left, right: _right, memory, many } = scene(soft());
    many.cancel();
    assert_eq!(ended(&many), SLICE);
    // A small one need not wait until the large one is done, which goes on with the rest.
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
    let Scene { left, right: _right, memory, many } = scene(soft());
    let small = left.create_transfer("right").unwrap();
    small.post_send_batch(&posts(memory, 3)).unwrap();
    small.cancel();
    assert_eq!((ended(&small), ended(&many)), (3, 0));
    drop(small);
    assert_eq!(ended(&many), 0);
}

#[test]
fn memory_of_a_large_transfer_that_was_released_is_free_after_some_rounds() {
    let Scene { left, right: _right, memory, many } = scene(soft());
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
    let Scene { left, right: _right, memory, many } = scene(soft());
    left.deregister_memory(memory).expect("no peer has heard of any");
    assert_eq!(ended(&many), MANY);
    assert!(matches!(many.is_complete(), Err(Error::Cancelled)));
}

#[test]
fn a_peers_goodbye_ends_a_slice_in_each_round() {
    let Scene { left, right, many, .. } = scene(patient());
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
    let Scene { left, right, memory, many } = scene(soft());
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
