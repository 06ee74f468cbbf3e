//! Reads and writes for which a program has no more time. End 0 asks, end 1 exports.

use super::one_sided_crossings::{
    CANCELLED, LITTLE, SECTION, ask, check_moved, eager, end_of, outcome, settle, under_way, up,
    up_as,
};
use super::said::is_stopped;
use crate::types::memory::OperationKind::{Read, Write};

#[test]
fn a_little_write_does_not_wait_for_its_answer() {
    let mut pair = up_as(eager());
    let transfer = ask(&mut pair, Write, LITTLE);
    pair.ends[0].abandon_request(transfer).unwrap();
    assert_eq!(outcome(&pair, transfer), CANCELLED, "its bytes are on their way");
    settle(&mut pair);
}

#[test]
fn a_write_that_is_not_granted_is_over_at_once() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, 1000);
    pair.ends[0].abandon_request(transfer).unwrap();
    assert_eq!(outcome(&pair, transfer), CANCELLED);
    settle(&mut pair);
    assert_eq!(check_moved(&pair, transfer), 0);
}

#[test]
fn a_write_is_over_when_what_is_dealt_is_sent() {
    for bytes in [SECTION, 1000] {
        let mut pair = up();
        let transfer = ask(&mut pair, Write, bytes);
        pair.deliver_all().unwrap();
        pair.ends[0].abandon_request(transfer).unwrap();
        let has_stopped = under_way(&pair, 0).into_iter().any(is_stopped);
        assert_eq!(has_stopped, bytes > SECTION);
        assert_eq!(end_of(&pair, transfer), None, "a section is under way from its memory");
        while pair.send_chunk(0, 0).unwrap() {}
        assert_eq!(outcome(&pair, transfer), CANCELLED, "the other end has said nothing");
        settle(&mut pair);
    }
}

#[test]
fn one_that_is_sent_is_over_at_once() {
    let mut pair = up();
    let transfer = ask(&mut pair, Write, SECTION);
    pair.deliver_all().unwrap();
    while pair.send_chunk(0, 0).unwrap() {}
    assert_eq!(end_of(&pair, transfer), None, "it is not answered");
    pair.ends[0].abandon_request(transfer).unwrap();
    assert_eq!(outcome(&pair, transfer), CANCELLED);
    settle(&mut pair);
}

#[test]
fn a_read_is_over_when_no_more_of_its_bytes_come() {
    let mut pair = up();
    let transfer = ask(&mut pair, Read, 1000);
    pair.deliver_all().unwrap();
    pair.ends[0].abandon_request(transfer).unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(end_of(&pair, transfer), None, "a section is under way to it");
    settle(&mut pair);
    assert_eq!((outcome(&pair, transfer), check_moved(&pair, transfer)), (CANCELLED, SECTION));
}
