//! Peers that have the secret and do not keep to the protocol of reads and writes.

use super::exporting::{Area, Exporting};
use super::one_sided_crossings::SETTING;
use super::pair::Pair;
use super::payload::check_place;
use super::requests::Request;
use super::said::{self, answer, grant, halt, note, stopped};
use super::setting::{AMPLE, Setting};
use crate::exports::capability::ListedRange;
use crate::exports::refusal::Refusal;
use crate::frames::eager_terms::{CreditKind, EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::frames::link_frame::LinkFrame;
use crate::frames::list_part::ListHead;
use crate::frames::messages::{Ended, MessageId, Ready, WriteWay};
use crate::peer::PeerProtocol;
use crate::peer::action::{Action, Ending};
use crate::peer::one_sided::OneSidedTerms;
use crate::peer::one_sided::remote_lists::ListFault;
use crate::peer::violation::Violation;
use crate::plans::stripe_queue::Finished;
use crate::types::memory::OperationKind::{Read, Write};
use crate::types::memory::{OperationKind, RemoteAccess};
use crate::types::{MemoryType, OpKey};

/// Bytes of the lists that the peer tells.
pub(super) const BYTES: u64 = 1000;
/// The initiator's name for a request.
pub(super) const OP: u64 = 1 << 32 | 77;

/// An end whose peer says what it likes.
pub(super) struct Prey {
    pub(super) protocol: PeerProtocol,
    pub(super) exporting: Exporting,
    pub(super) said: Vec<Frame>,
    /// Bytes of the plans that were made to receive.
    pub(super) planned: Vec<u64>,
}

impl Prey {
    /// Makes an end that is up, with an area of host memory and one of a GPU's that the CPU does
    /// not reach.
    pub(super) fn new() -> Self {
        Self::with_device_memory_on_link(0)
    }

    /// Makes the same end; `device_bytes`: the most bytes on the link to the second area.
    pub(super) fn with_device_memory_on_link(device_bytes: u64) -> Self {
        let offer = EagerOffer { bytes: 16, buffer_bytes: 0, device_bytes, access_bytes: 64 };
        let eager = EagerTerms::agree(offer, offer, 64);
        let one_sided = OneSidedTerms {
            asked: 2,
            note_bytes: 330,
            queued_note_bytes: 330,
            planned: 100,
            ..AMPLE
        };
        let mut pair = Pair::up([Setting { eager, one_sided, ..SETTING }; 2]);
        let protocol = pair.ends[0].take_protocol().expect("it is up");
        let mut exporting = Exporting::new();
        for memory in [MemoryType::Host, MemoryType::Device] {
            exporting.export(6000, memory, RemoteAccess::ReadWrite);
        }
        Self { protocol, exporting, said: Vec::new(), planned: Vec::new() }
    }

    pub(super) fn area(&self, number: usize) -> Area {
        self.exporting.areas[number].clone()
    }

    /// Lets the end hear this from the peer. Returns the breach, if it is one.
    pub(super) fn hear(&mut self, frame: Frame) -> Option<Violation> {
        let place = frame.as_chunk().map(|chunk| self.protocol.place_of(chunk));
        let landing = self.protocol.handle_frame(frame, &mut self.exporting.exports);
        if let Some(place) = place {
            check_place(place.as_ref(), &landing).unwrap();
        }
        self.act()
    }

    pub(super) fn act(&mut self) -> Option<Violation> {
        while let Some(action) = self.protocol.poll_action() {
            match action {
                Action::End { ending: Ending::Broken(violation), .. } => return Some(violation),
                Action::Send(frame) | Action::SendWithPayload { frame, .. } => {
                    self.said.push(frame)
                }
                Action::Served(uses) => self.exporting.exports.end_all(&uses),
                Action::ReceiveChunks(plan) => self.planned.push(plan.bytes),
                _ => {}
            }
        }
        None
    }

    /// Lets the peer tell a list of one range at the beginning of an area.
    pub(super) fn know(&mut self, list: u32, kind: OperationKind, area: usize, bytes: u64) {
        let key = self.area(area).listed;
        let range = ListedRange { key: 0, offset: 0, bytes };
        let head = ListHead { kind, keys: 1, ranges: 1, bytes };
        assert_eq!(self.hear(said::list(list, head, &[key], &[range])), None);
    }

    /// Lists 1 to read and 2 to write a lot, 3 and 4 to write little, to host and device memory.
    pub(super) fn with_lists() -> Self {
        let mut prey = Self::new();
        prey.know(1, Read, 0, BYTES);
        prey.know(2, Write, 0, BYTES);
        prey.know(3, Write, 0, 8);
        prey.know(4, Write, 1, 8);
        prey
    }

    /// Returns the name of the receive that was granted last.
    pub(super) fn granted(&self) -> u64 {
        let grant = |frame: &Frame| match frame {
            Frame::Ready(Ready::Write { recv, .. }) => Some(*recv),
            _ => None,
        };
        self.said.iter().rev().find_map(grant).expect("it was granted")
    }

    /// Takes an area back.
    pub(super) fn unexport(&mut self, number: usize) {
        let key = self.exporting.revoke(number);
        self.protocol.handle_revoked(&[key]);
        assert_eq!(self.act(), None);
    }

    /// Has the end itself ask for a lot. Returns its name for the request.
    pub(super) fn ask(&mut self, kind: OperationKind) -> u64 {
        self.ask_of(kind, BYTES)
    }

    /// Has the end itself ask for this many bytes. Returns its name for the request.
    pub(super) fn ask_of(&mut self, kind: OperationKind, bytes: u64) -> u64 {
        let mut pair = Pair::up([SETTING; 2]);
        let area = self.area(0);
        let requests = &mut pair.ends[0].requests;
        let (transfer, request) =
            (requests.next_transfer(), Request::of_one(requests, kind, (0, &area), bytes));
        let list = request.list;
        let new = crate::peer::one_sided::NewRequest { transfer, list, note: None };
        let op = self.protocol.handle_request(new);
        assert_eq!(self.act(), None);
        op.to_wire()
    }
}

pub(super) fn write(op: u64, list: u32) -> Frame {
    said::write(op, list, WriteWay::Channels, None)
}

pub(super) fn read(op: u64, list: u32) -> Frame {
    said::read(op, list, false)
}

fn write_now(list: u32, bytes: u32) -> Frame {
    said::write(OP, list, WriteWay::Inline(bytes), None)
}

pub(super) fn section(recv: u64, offset: u64, bytes: u64) -> Frame {
    said::section(recv, 0, (offset, bytes), 64)
}

#[test]
fn a_request_must_be_of_a_list_that_allows_it() {
    for (frame, list) in [
        (write(OP, 9), 9),
        (read(OP, 9), 9),
        (write(OP, 1), 1),
        (read(OP, 2), 2),
        (write_now(9, 8), 9),
        (write_now(3, 9), 3),
        (write_now(2, BYTES as u32), 2),
        (write_now(4, 8), 4),
    ] {
        let wrong = Some(Violation::Request { op: OP, list });
        assert_eq!(Prey::with_lists().hear(frame.clone()), wrong, "{frame:?}");
    }
    assert_eq!(Prey::with_lists().hear(write_now(3, 8)), None);
}

#[test]
fn a_list_without_ranges_is_for_writes_that_need_no_grant() {
    let head = |kind| ListHead { kind, keys: 0, ranges: 0, bytes: 0 };
    let empty = |kind| said::list(7, head(kind), &[], &[]);
    let sizes = ListFault::Sizes { keys: 0, ranges: 0, bytes: 0 };
    let wrong = Some(Violation::List { list: 7, fault: sizes });
    assert_eq!(Prey::with_lists().hear(empty(Read)), wrong);
    for (frame, is_wrong) in
        [(write(OP, 7), true), (write_now(7, 1), true), (write_now(7, 0), false)]
    {
        let mut prey = Prey::with_lists();
        assert_eq!(prey.hear(empty(Write)), None);
        let wrong = is_wrong.then_some(Violation::Request { op: OP, list: 7 });
        assert_eq!(prey.hear(frame), wrong);
    }
    assert_eq!(
        Prey::with_lists().hear(write_now(3, 0)),
        Some(Violation::Request { op: OP, list: 3 })
    );
}

#[test]
fn a_name_is_in_use_until_its_request_is_over() {
    for (first, second, list) in [
        (write(OP, 2), write(OP, 2), 2),
        (write(OP, 2), read(OP, 1), 1),
        (read(OP, 1), read(OP, 1), 1),
        (read(OP, 1), write_now(3, 8), 3),
    ] {
        let mut prey = Prey::with_lists();
        assert_eq!(prey.hear(first), None);
        assert_eq!(prey.hear(second), Some(Violation::Request { op: OP, list }));
    }
}

#[test]
fn no_more_is_asked_at_a_time_than_agreed() {
    let mut prey = Prey::with_lists();
    for op in [1, 2] {
        assert_eq!(prey.hear(write(op, 2)), None);
        assert_eq!(prey.hear(read(10 + op, 1)), None);
    }
    let wrong = Some(Violation::Request { op: 3, list: 2 });
    assert_eq!(prey.hear(write(3, 2)), wrong);
    let mut prey = Prey::with_lists();
    for op in [1, 2] {
        assert_eq!(prey.hear(read(op, 1)), None);
    }
    assert_eq!(prey.hear(read(3, 1)), Some(Violation::Request { op: 3, list: 1 }));
}

#[test]
fn a_list_is_not_forgotten_while_a_request_of_it_needs_it() {
    for (frame, list) in [(read(OP, 1), 1), (write(OP, 2), 2)] {
        let mut prey = Prey::with_lists();
        assert_eq!(prey.hear(frame), None);
        let fault = ListFault::InUse;
        assert_eq!(prey.hear(Frame::Forget { list }), Some(Violation::List { list, fault }));
    }
}

#[test]
fn reads_whose_chunks_are_not_taken_are_not_scheduled_without_end() {
    let mut prey = Prey::with_lists();
    prey.know(5, Read, 0, 8);
    let mut sections = 0;
    for op in 1..1000 {
        if prey.hear(read(op, 5)).is_some() {
            sections = prey.said.iter().filter(|it| matches!(it, Frame::Chunks(_))).count();
            break;
        }
    }
    // 2 that are scheduled and not sent, and 2 that are not scheduled.
    assert_eq!((sections, prey.protocol.operation_count()), (2, 4));
}

#[test]
fn sections_whose_chunks_do_not_come_are_not_planned() {
    let mut prey = Prey::with_lists();
    prey.hear(write(OP, 2));
    let recv = prey.granted();
    assert!((0..5).all(|number| prey.hear(section(recv, 100 * number, 100)).is_none()));
    assert_eq!(prey.planned, [100], "the first one is as much as may be planned");
    let op = OpKey::from_wire(recv);
    let part = |bytes| Finished::Parts {
        sent_on: Some(0),
        op,
        transfer: Default::default(),
        chunks: 1,
        bytes,
    };
    prey.protocol.handle_finished(part(99));
    prey.act();
    assert_eq!(prey.planned, [100, 100]);
    prey.protocol.handle_finished(part(101));
    prey.act();
    assert_eq!(prey.planned, [100; 3]);
    // What is scheduled later comes later, and a sender that gives up has said all of that.
    assert_eq!(prey.hear(stopped(Write, OP)), None);
    (0..3).for_each(|_| prey.protocol.handle_finished(part(100)));
    assert_eq!((prey.act(), prey.planned.len()), (None, 5));
    let message = MessageId::Write(OP);
    let last = prey.said.last();
    assert!(
        matches!(last, Some(Frame::End { message: it, how: Ended::Refused(_) }) if *it == message)
    );
}

#[test]
fn cuts_shorter_than_needed_are_a_violation() {
    let mut prey = Prey::with_lists();
    prey.hear(write(OP, 2));
    let recv = prey.granted();
    let short =
        Violation::Section { recv, offset: 0, bytes: 63, scheduled: 0, message_bytes: BYTES };
    assert_eq!(prey.hear(section(recv, 0, 63)), Some(short));
}

#[test]
fn notes_beyond_the_credit_are_a_violation() {
    let no_room = Some(Violation::NoRoom { what: CreditKind::Notes, limit: 330 });
    for frame in [
        note(300),
        said::write(OP, 2, WriteWay::Channels, Some(300)),
        said::write(OP, 3, WriteWay::Inline(8), Some(300)),
    ] {
        assert_eq!(Prey::with_lists().hear(frame), no_room);
    }
    let mut prey = Prey::with_lists();
    assert!((0..5).all(|_| prey.hear(note(0)).is_none()));
    assert_eq!(prey.hear(note(0)), no_room, "6 empty ones do not fit");
}

#[test]
fn frames_about_unknown_requests_are_a_violation() {
    let unknown = Some(Violation::UnknownRequest { op: OP });
    for frame in [grant(OP, 1), answer(OP, None)] {
        assert_eq!(Prey::new().hear(frame.clone()), unknown, "{frame:?}");
    }
    for kind in [Read, Write] {
        assert_eq!(Prey::new().hear(stopped(kind, OP)), unknown);
        assert_eq!(Prey::new().hear(halt(kind, OP)), None, "it may have crossed");
    }
}

#[test]
fn a_halt_is_for_a_request_of_its_kind() {
    let wrong = |op| Some(Violation::UnknownRequest { op });
    let mut prey = Prey::with_lists();
    assert_eq!(prey.hear(write(OP, 2)), None);
    assert_eq!(prey.hear(halt(Read, OP)), wrong(OP), "it is a write");
    let mut prey = Prey::new();
    let op = prey.ask(Read);
    assert_eq!(prey.hear(halt(Write, op)), wrong(op), "it is a read of ours");
    let mut prey = Prey::new();
    let op = prey.ask(Write);
    assert_eq!(prey.hear(halt(Write, op)), wrong(op), "it is not granted");
}

#[test]
fn an_answer_comes_when_it_can() {
    let wrong = |op| Some(Violation::UnknownRequest { op });
    let done = |op| answer(op, None);
    let refused = |op| answer(op, Some(Refusal::Revoked));
    let mut prey = Prey::new();
    let op = prey.ask(Write);
    assert_eq!(prey.hear(done(op)), wrong(op), "nothing was sent");
    let mut prey = Prey::new();
    let op = prey.ask(Write);
    assert_eq!(prey.hear(grant(op, 5)), None);
    assert_eq!(prey.hear(done(op)), wrong(op), "not all of it is scheduled");
    let mut prey = Prey::new();
    let op = prey.ask(Write);
    prey.hear(grant(op, 5));
    assert_eq!(prey.hear(refused(op)), wrong(op), "it was granted");
    let mut prey = Prey::new();
    let op = prey.ask(Write);
    assert_eq!(prey.hear(refused(op)), None);
    assert_eq!(prey.hear(refused(op)), wrong(op), "once");
    let mut prey = Prey::new();
    let op = prey.ask(Write);
    prey.hear(grant(op, 5));
    assert_eq!(prey.hear(grant(op, 6)), wrong(op), "granted once");
    let mut prey = Prey::new();
    let op = prey.ask(Read);
    assert_eq!(prey.hear(done(op)), wrong(op), "reads have none");
}
