//! Peers that do not keep to the protocol of bytes that move in sections, or on the link in chunks.

use super::exporting::Exporting;
use super::one_sided_breaches::{BYTES, OP, Prey, read, section, write};
use super::one_sided_crossings::SETTING;
use super::pair::Pair;
use super::said::{self, answer, link_chunk, note, stopped};
use crate::exports::refusal::Refusal;
use crate::frames::frame::Frame;
use crate::frames::messages::{LinkChunk, MessageId, WriteWay};
use crate::peer::action::{Action, Ending};
use crate::peer::violation::Violation;
use crate::types::OpKey;
use crate::types::memory::OperationKind;
use crate::types::memory::OperationKind::{Read, Write};

fn write_on_link(op: u64, list: u32) -> Frame {
    said::write(op, list, WriteWay::Link, None)
}

fn wrong(kind: OperationKind, op: u64, bytes: u32) -> Option<Violation> {
    Some(Violation::Part { of: MessageId::of(kind, op), bytes })
}

#[test]
fn writes_on_the_link_are_as_agreed() {
    let wrong = |list| Some(Violation::Request { op: OP, list });
    let mut prey = Prey::with_lists();
    assert_eq!(prey.hear(write_on_link(OP, 2)), wrong(2), "it is too long");
    let mut prey = Prey::with_lists();
    assert_eq!(prey.hear(write_on_link(OP, 4)), wrong(4), "into memory of a GPU");
    prey.exporting.check_idle();
    let mut prey = Prey::with_lists();
    assert_eq!(prey.hear(write_on_link(OP, 3)), None);
    assert_eq!(prey.hear(write_on_link(OP, 3)), wrong(3), "the name is in use");
}

#[test]
fn chunks_belong_to_a_message_on_the_link_and_are_no_longer_than_its_rest() {
    for kind in [Read, Write] {
        assert_eq!(
            Prey::with_lists().hear(link_chunk(kind, OP, 1)),
            wrong(kind, OP, 1),
            "of nothing"
        );
    }
    let mut prey = Prey::with_lists();
    prey.hear(write(OP, 3));
    assert_eq!(prey.hear(link_chunk(Write, OP, 1)), wrong(Write, OP, 1), "it waits for chunks");
    let mut prey = Prey::with_lists();
    prey.hear(write_on_link(OP, 3));
    assert_eq!(prey.hear(link_chunk(Read, OP, 1)), wrong(Read, OP, 1), "it is a write");
    for bytes in [6, u32::MAX] {
        let mut prey = Prey::with_lists();
        prey.hear(write_on_link(OP, 3));
        assert_eq!(prey.hear(link_chunk(Write, OP, 3)), None);
        assert_eq!(
            prey.hear(link_chunk(Write, OP, bytes)),
            wrong(Write, OP, bytes),
            "5 bytes are left"
        );
    }
    let mut prey = Prey::with_lists();
    prey.hear(write_on_link(OP, 3));
    assert_eq!(prey.hear(link_chunk(Write, OP, 8)), None);
    assert_eq!(prey.said.last(), Some(&answer(OP, None)));
    assert_eq!(prey.hear(link_chunk(Write, OP, 1)), wrong(Write, OP, 1), "it is done");
    let mut prey = Prey::with_lists();
    prey.hear(read(OP, 1));
    assert_eq!(
        prey.hear(link_chunk(Write, OP, 1)),
        wrong(Write, OP, 1),
        "it is a read of the peer's"
    );
    let mut prey = Prey::with_lists();
    prey.hear(write_on_link(OP, 3));
    prey.hear(stopped(Write, OP));
    assert_eq!(prey.hear(link_chunk(Write, OP, 1)), wrong(Write, OP, 1), "it has stopped");
}

#[test]
fn chunks_of_a_read_come_without_a_frame_before() {
    let mut prey = Prey::new();
    let op = prey.ask(Read);
    assert_eq!(
        prey.hear(link_chunk(Read, op, 8)),
        wrong(Read, op, 8),
        "it is too long for the link"
    );
    let mut prey = Prey::new();
    let op = prey.ask_of(Read, 60);
    assert_eq!(prey.hear(link_chunk(Read, op, 8)), wrong(Read, op, 8), "into memory of a GPU");
    let mut prey = Prey::with_device_memory_on_link(u64::MAX);
    let op = prey.ask_of(Read, 60);
    assert_eq!(prey.hear(section(op, 0, 60)), None);
    assert_eq!(prey.hear(link_chunk(Read, op, 8)), wrong(Read, op, 8), "it comes in chunks");
    let mut prey = Prey::with_device_memory_on_link(u64::MAX);
    let op = prey.ask_of(Read, 60);
    assert_eq!(prey.hear(link_chunk(Read, op, 8)), None);
    let unknown = Some(Violation::UnknownReceive { recv: op });
    assert_eq!(prey.hear(section(op, 8, 52)), unknown, "it comes in chunks");
}

#[test]
fn what_was_refused_may_go_on_to_its_end_and_no_further() {
    let begun = || {
        let mut prey = Prey::with_lists();
        prey.hear(write_on_link(OP, 3));
        assert_eq!(prey.hear(link_chunk(Write, OP, 2)), None);
        prey.unexport(0);
        assert_eq!(prey.said.last(), Some(&answer(OP, Some(Refusal::Revoked))));
        prey.exporting.check_idle();
        prey
    };
    let mut prey = begun();
    assert_eq!(prey.hear(link_chunk(Write, OP, 5)), None);
    assert_eq!(prey.hear(link_chunk(Write, OP, 2)), wrong(Write, OP, 2), "1 byte is left");
    let mut prey = begun();
    assert_eq!(prey.hear(link_chunk(Write, OP, 6)), None);
    assert_eq!(prey.hear(link_chunk(Write, OP, 1)), wrong(Write, OP, 1), "all has come");
    let mut prey = begun();
    assert_eq!(prey.hear(stopped(Write, OP)), None);
    assert_eq!(prey.hear(link_chunk(Write, OP, 1)), wrong(Write, OP, 1), "it has stopped");
    let mut prey = begun();
    assert_eq!(prey.hear(write(OP, 3)), Some(Violation::Request { op: OP, list: 3 }), "in use");
    // Bytes that are not read to their end count as asked for.
    let mut prey = Prey::with_lists();
    prey.unexport(0);
    assert_eq!([1, 2].map(|op| prey.hear(write_on_link(op, 3))), [None, None]);
    assert_eq!(prey.hear(write_on_link(3, 3)), Some(Violation::Request { op: 3, list: 3 }));
}

#[test]
fn nothing_is_asked_before_the_peer_can_be_up() {
    let mut pair = Pair::new([SETTING; 2]);
    let mut protocol = pair.ends[0].take_protocol().expect("it is there");
    let mut exporting = Exporting::new();
    protocol.handle_frame(note(0), &mut exporting.exports);
    let ending = std::iter::from_fn(|| protocol.poll_action()).find_map(|action| match action {
        Action::End { ending: Ending::Broken(violation), .. } => Some(violation),
        _ => None,
    });
    assert!(matches!(ending, Some(Violation::Unexpected { .. })), "{ending:?}");
}

#[test]
fn a_decision_is_sent_before_the_peer_ends() {
    const READS: u64 = 2;
    let mut prey = Prey::with_lists();
    for op in OP..OP + READS {
        assert_eq!(prey.hear(read(op, 1)), None);
    }
    let key = prey.exporting.revoke(0);
    prey.protocol.handle_revoked(&[key]);
    // The peer is lost before the end has acted on it.
    let under_way = prey.protocol.take_operations().len();
    let of_key = |action| matches!(action, Action::Served(uses) if uses.contains(&key));
    let ended = prey.protocol.take_actions().map(of_key).filter(|is_it| *is_it).count();
    assert_eq!(under_way + ended, READS as usize);
    assert!(ended > 0, "nothing of some has been scheduled");
    assert_eq!(prey.protocol.take_actions().count(), 0);
}

#[test]
fn a_read_gets_what_it_has_asked_for() {
    let mut prey = Prey::new();
    let recv = prey.ask(Read);
    let unknown = Some(Violation::UnknownReceive { recv });
    let delivered = LinkChunk { of: MessageId::Receive(recv), bytes: 8 };
    assert_eq!(prey.hear(Frame::LinkChunk(delivered)), unknown, "it is no message");
    let mut prey = Prey::new();
    let recv = prey.ask(Write);
    let unknown = Some(Violation::UnknownReceive { recv });
    assert_eq!(prey.hear(section(recv, 0, 100)), unknown, "it is a write");
    let mut prey = Prey::with_lists();
    prey.hear(read(OP, 1));
    let served =
        prey.protocol.cx.operations.keys().next().map(OpKey::to_wire).expect("it is served");
    let unknown = Some(Violation::UnknownReceive { recv: served });
    assert_eq!(prey.hear(section(served, 0, 100)), unknown, "it is sent");
}

#[test]
fn sections_of_lists_are_what_is_left() {
    let mut prey = Prey::with_lists();
    prey.hear(write(OP, 2));
    let recv = prey.granted();
    let wrong = |offset, bytes, scheduled| {
        Some(Violation::Section { recv, offset, bytes, scheduled, message_bytes: BYTES })
    };
    assert_eq!(prey.hear(section(recv, 0, 100)), None);
    for (offset, bytes) in [(0, 100), (101, 1), (100, 0), (100, 901), (100, u64::MAX)] {
        let mut prey = Prey::with_lists();
        prey.hear(write(OP, 2));
        prey.hear(section(recv, 0, 100));
        assert_eq!(prey.hear(section(recv, offset, bytes)), wrong(offset, bytes, 100));
    }
    assert_eq!(prey.hear(stopped(Write, OP)), None);
    let unknown = Some(Violation::UnknownReceive { recv });
    assert_eq!(prey.hear(section(recv, 100, 900)), unknown, "it has stopped");
    let mut prey = Prey::with_lists();
    prey.hear(write(OP, 2));
    prey.hear(section(recv, 0, 100));
    prey.hear(stopped(Write, OP));
    let unknown = Some(Violation::UnknownRequest { op: OP });
    assert_eq!(prey.hear(stopped(Write, OP)), unknown, "twice");
}
