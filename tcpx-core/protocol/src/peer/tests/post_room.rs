//! Room for posts is made before the first of them, or all are refused.

use std::time::{Duration, Instant};

use slotmap::{KeyData, SlotMap};

use super::exporting::no_exports;
use super::said::announce;
use super::setting::{AMPLE, KEEPS_ALL};
use crate::frames::eager_terms::{CreditKind, EagerTerms};
use crate::frames::fields::{ChannelHandle, HANDLE_BYTES};
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::hello::Agreement;
use crate::peer::message::NewOperation;
use crate::peer::schedule::tuning::Tuning;
use crate::peer::tags::posting::PORTION;
use crate::peer::{Opening, PeerProtocol, SLICE};
use crate::types::{Direction, MemoryType, RegistrationKey, Span, TransferKey};

const POSTS: usize = 10 * PORTION;

/// Makes an end that is up, all of whose actions were taken.
fn up() -> PeerProtocol {
    let agreement = Agreement {
        channels: 1,
        chunk_bytes: 4096,
        peer_progresses: true,
        eager: EagerTerms::OFF,
        note_bytes: AMPLE.note_bytes,
        keeps_chunks: false,
        is_encrypted: false,
        on_demand: false,
    };
    let handles = vec![ChannelHandle([0; HANDLE_BYTES])];
    let opening = Opening {
        agreement,
        tuning: Tuning::new(agreement.chunk_bytes, 1),
        peer_timeout: None,
        is_named: true,
        connect_timeout: Duration::from_secs(30),
        kept: KEEPS_ALL.terms(),
        slice: SLICE,
        one_sided: AMPLE,
    };
    let mut protocol = PeerProtocol::new(opening, Instant::now());
    protocol.handle_listening(handles.clone());
    protocol.handle_comms_connected();
    protocol.handle_comms_accepted(ChunkCounts::new());
    protocol.handle_frame(Frame::Handles(handles), &mut no_exports());
    protocol.handle_frame(Frame::Open { credit: ChunkCounts::new() }, &mut no_exports());
    protocol.handle_frame(Frame::may_send(CreditKind::Receives, 1 << 20), &mut no_exports());
    while protocol.poll_action().is_some() {}
    assert_eq!(protocol.check_posts(Direction::Send, 1), Ok(()));
    protocol
}

fn operation(direction: Direction, number: usize) -> NewOperation {
    let registration = RegistrationKey::from(KeyData::from_ffi(1 | 1 << 32));
    let span = Span { registration, address: 4096, memory: MemoryType::Host };
    let mut transfers = SlotMap::<TransferKey, ()>::with_key();
    let (transfer, tag) = (transfers.insert(()), number as i64);
    NewOperation { transfer, direction, tag, span, bytes: 1 }
}

/// Returns the room of the lists that posts grow.
fn room(protocol: &PeerProtocol) -> [usize; 2] {
    [protocol.cx.operations.capacity(), protocol.cx.actions.capacity()]
}

fn post(protocol: &mut PeerProtocol, direction: Direction) {
    for number in 0..POSTS {
        protocol.handle_post(operation(direction, number));
        if number % PORTION == PORTION - 1 {
            protocol.handle_batch(true);
            while protocol.poll_action().is_some() {}
        }
    }
    protocol.handle_batch(false);
}

#[test]
fn more_posts_than_there_can_be_room_for_change_nothing() {
    let mut protocol = up();
    for direction in [Direction::Send, Direction::Receive] {
        assert!(protocol.make_room(direction, usize::MAX / 1024).is_err());
        protocol.give_room_back();
        assert_eq!(protocol.operation_count(), 0);
        assert!(protocol.poll_action().is_none());
    }
    protocol.handle_post(operation(Direction::Send, 1));
    assert_eq!(protocol.operation_count(), 1);
}

#[test]
fn posts_allocate_nothing_once_there_is_room() {
    for direction in [Direction::Send, Direction::Receive] {
        let mut protocol = up();
        protocol.make_room(direction, POSTS).expect("there is room");
        let made = room(&protocol);
        post(&mut protocol, direction);
        assert_eq!((room(&protocol), protocol.operation_count()), (made, POSTS));
        assert!(made[1] < POSTS, "the queue is emptied portion by portion");
    }
}

/// Each send meets an announced receive of another size, the most that a post can queue.
#[test]
fn sends_that_meet_their_receives_have_room_too() {
    let mut protocol = up();
    for recv in 0..POSTS {
        protocol.handle_frame(announce(recv as u64, recv as i64, 2), &mut no_exports());
        // The peer may announce more before it has announced all that it may.
        while protocol.poll_action().is_some() {}
    }
    assert_eq!(protocol.matched_by(usize::MAX), POSTS);
    protocol.make_room(Direction::Send, POSTS).expect("there is room");
    let made = room(&protocol);
    post(&mut protocol, Direction::Send);
    assert_eq!((room(&protocol), protocol.operation_count()), (made, 0));
}
