//! Reads and writes that end before their last byte: given up, taken back, or left behind. End 0
//! asks, end 1 exports.

use OperationKind::{Read, Write};

use super::one_sided_crossings::{
    CANCELLED, LITTLE, SECTION, SETTING, ask, assert_parted, check_moved, eager, end_of, hear,
    move_chunks, outcome, post, prepare, refused, settle, under_way, up, up_as,
};
use super::setting::{AMPLE, Setting};
use crate::exports::refusal::Refusal;
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, Ready};
use crate::peer::action::{Outcome, Withdrawal};
use crate::peer::one_sided::OneSidedTerms;
use crate::types::memory::OperationKind;

#[test]
fn a_grant_that_crosses_a_cancel_finds_nothing_and_the_slot_is_free_again() {
    let setting = Setting { one_sided: OneSidedTerms { asked: 1, ..AMPLE }, ..SETTING };
    let mut pair = up_as(setting);
    let transfer = ask(&mut pair, Write, 200);
    hear(&mut pair, 1);
    assert!(matches!(under_way(&pair, 1)[..], [Frame::Ready(Ready::Write { .. })]));
    pair.ends[0].cancel_request(transfer).unwrap();
    assert_eq!(outcome(&pair, transfer), CANCELLED, "at once: none of its memory is in use");
    post(&mut pair, transfer, None);
    assert!(under_way(&pair, 0).is_empty(), "the one slot is taken until the answer");
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), Outcome::Done);
}

#[test]
fn a_halt_that_crosses_stopped_is_passed_over() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, 1000);
    pair.deliver_all().unwrap();
    pair.ends[0].cancel_request(transfer).unwrap();
    pair.ends[1].unexport(0).unwrap();
    assert!(matches!(under_way(&pair, 0)[..], [Frame::End { how: Ended::Stopped(_), .. }]));
    assert!(matches!(under_way(&pair, 1)[..], [Frame::Cancel { .. }]));
    assert_eq!(end_of(&pair, transfer), None, "a section is under way");
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), CANCELLED);
    assert_eq!(check_moved(&pair, transfer), SECTION);
}

#[test]
fn a_halt_that_crosses_the_last_section_comes_too_late() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, SECTION);
    hear(&mut pair, 1);
    hear(&mut pair, 0);
    assert!(matches!(pair.ends[0].outbox.back(), Some(Frame::Chunks(_))));
    pair.ends[1].unexport(0).unwrap();
    assert!(matches!(under_way(&pair, 1)[..], [Frame::Cancel { .. }]));
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), Outcome::Done);
}

#[test]
fn a_halt_before_the_last_section_ends_it_with_its_reason() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, SECTION + 1);
    pair.deliver_all().unwrap();
    pair.ends[1].unexport(0).unwrap();
    pair.ends[1].unexport(0).unwrap();
    assert_eq!(under_way(&pair, 1).len(), 1, "it is said once");
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), refused(Refusal::Revoked));
}

#[test]
fn stopped_may_come_when_all_that_was_dealt_is_in_place() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, SECTION + 1);
    pair.deliver_all().unwrap();
    pair.ends[0].cancel_request(transfer).unwrap();
    move_chunks(&mut pair, 0);
    assert_eq!(end_of(&pair, transfer), None, "it is not answered");
    hear(&mut pair, 1);
    assert!(matches!(under_way(&pair, 1)[..], [Frame::End { how: Ended::Refused(_), .. }]));
    settle(&mut pair);
    assert_eq!((outcome(&pair, transfer), check_moved(&pair, transfer)), (CANCELLED, SECTION));
}

#[test]
fn a_cancel_when_the_last_byte_is_dealt_comes_too_late() {
    for kind in [Read, Write] {
        let mut pair = up();
        let transfer = ask(&mut pair, kind, SECTION);
        pair.deliver_all().unwrap();
        pair.ends[0].cancel_request(transfer).unwrap();
        assert!(under_way(&pair, 0).is_empty(), "nothing is said");
        settle(&mut pair);
        assert_eq!(outcome(&pair, transfer), Outcome::Done);
    }
}

#[test]
fn a_read_that_is_cancelled_ends_when_its_memory_is_free() {
    let mut pair = up();
    let transfer = ask(&mut pair, Read, 1000);
    pair.deliver_all().unwrap();
    pair.ends[0].cancel_request(transfer).unwrap();
    assert!(matches!(under_way(&pair, 0)[..], [Frame::Cancel { .. }]));
    pair.deliver_all().unwrap();
    assert_eq!(end_of(&pair, transfer), None, "a section is under way to it");
    settle(&mut pair);
    assert_eq!((outcome(&pair, transfer), check_moved(&pair, transfer)), (CANCELLED, SECTION));
}

#[test]
fn a_halt_of_a_read_that_crosses_its_last_section_comes_too_late() {
    let mut pair = up();
    let transfer = ask(&mut pair, Read, SECTION);
    hear(&mut pair, 1);
    pair.ends[0].cancel_request(transfer).unwrap();
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), Outcome::Done);
}

#[test]
fn what_is_taken_back_before_a_request_comes_is_refused() {
    for setting in [SETTING, eager()] {
        for kind in [Read, Write] {
            let mut pair = up_as(setting);
            let transfer = ask(&mut pair, kind, LITTLE);
            pair.ends[1].unexport(0).unwrap();
            settle(&mut pair);
            assert_eq!(outcome(&pair, transfer), refused(Refusal::Revoked));
            assert_eq!(check_moved(&pair, transfer), 0);
        }
    }
}

#[test]
fn a_known_list_whose_memory_is_taken_back_is_refused() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, 200);
    settle(&mut pair);
    pair.ends[1].unexport(0).unwrap();
    post(&mut pair, transfer, Some(vec![1, 2].into()));
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), refused(Refusal::Revoked));
}

#[test]
fn memory_is_in_use_until_the_last_chunk_is_in_place() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, SECTION);
    pair.deliver_all().unwrap();
    while pair.send_chunk(0, 0).unwrap() || pair.receive_chunk(1, 0).unwrap() {}
    pair.ends[1].unexport(0).unwrap();
    let area = pair.ends[1].exporting.areas[0].clone();
    assert!(pair.consume_chunk(1, 0).unwrap());
    assert!(!pair.ends[1].exporting.is_idle(&area), "a chunk is to be unpacked");
    assert!(pair.consume_chunk(1, 0).unwrap());
    assert!(pair.ends[1].exporting.is_idle(&area));
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), Outcome::Done);
}

#[test]
fn a_read_of_what_is_taken_back_stops_and_frees_it_when_its_chunks_are_sent() {
    let mut pair = up();
    let transfer = ask(&mut pair, Read, 1000);
    pair.deliver_all().unwrap();
    pair.ends[1].unexport(0).unwrap();
    let area = pair.ends[1].exporting.areas[0].clone();
    assert!(!pair.ends[1].exporting.is_idle(&area));
    while pair.send_chunk(1, 0).unwrap() {}
    assert!(pair.ends[1].exporting.is_idle(&area), "the other end need not do anything");
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), refused(Refusal::Revoked));
}

#[test]
fn a_request_that_crosses_a_goodbye_ends_with_that() {
    for setting in [SETTING, eager()] {
        for kind in [Read, Write] {
            let mut pair = up_as(setting);
            pair.ends[1].disconnect().unwrap();
            assert_eq!(pair.ends[1].outbox.back(), Some(&Frame::Goodbye));
            let transfer = prepare(&mut pair, kind, LITTLE);
            post(&mut pair, transfer, Some(vec![3].into()));
            pair.settle().unwrap();
            let left = Outcome::Withdrawn(Withdrawal::PeerLeft);
            assert_eq!(outcome(&pair, transfer), left);
            assert_parted(&mut pair);
        }
    }
}

#[test]
fn who_leaves_serves_what_has_begun_and_refuses_the_rest() {
    for kind in [Read, Write] {
        let mut pair = up();
        let first = ask(&mut pair, kind, 1000);
        pair.deliver_all().unwrap();
        pair.ends[1].disconnect().unwrap();
        let second = ask(&mut pair, kind, 1000);
        pair.settle().unwrap();
        assert_eq!(outcome(&pair, first), Outcome::Done);
        assert_eq!(outcome(&pair, second), refused(Refusal::Leaves));
        assert_parted(&mut pair);
    }
}

#[test]
fn who_asks_and_leaves_finishes_what_the_peer_has_heard_of() {
    let setting = Setting { one_sided: OneSidedTerms { asked: 1, ..AMPLE }, ..SETTING };
    for kind in [Read, Write] {
        let mut pair = up_as(setting);
        let asked = ask(&mut pair, kind, 1000);
        let waiting = ask(&mut pair, kind, 1000);
        pair.ends[0].disconnect().unwrap();
        assert_eq!(outcome(&pair, waiting), Outcome::Withdrawn(Withdrawal::Left));
        pair.settle().unwrap();
        assert_eq!(outcome(&pair, asked), Outcome::Done);
        assert_parted(&mut pair);
    }
}

#[test]
fn who_gives_up_and_leaves_still_says_stopped() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, 1000);
    hear(&mut pair, 1);
    pair.ends[0].cancel_request(transfer).unwrap();
    pair.ends[0].disconnect().unwrap();
    assert_eq!(pair.ends[0].outbox.back(), Some(&Frame::Goodbye));
    assert_parted(&mut pair);
}

#[test]
fn notes_are_sent_before_a_goodbye() {
    let setting = Setting {
        one_sided: OneSidedTerms { note_bytes: 330, queued_note_bytes: 330, ..AMPLE },
        ..SETTING
    };
    let mut pair = up_as(setting);
    for _ in 0..6 {
        pair.ends[0].notify(40).unwrap();
    }
    pair.ends[0].disconnect().unwrap();
    assert!(!pair.ends[0].sent_goodbye, "three of them have no room");
    pair.settle().unwrap();
    assert!(pair.ends[0].notes.sent.is_empty());
    assert_parted(&mut pair);
}
