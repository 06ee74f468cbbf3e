//! Reads and writes that travel on the link, told step by step. End 0 asks, end 1 exports.

use super::driver::CHUNK_BYTES;
use super::one_sided_crossings::{
    CANCELLED, LITTLE, SETTING, ask, check_moved, end_of, hear, outcome, post, prepare, settle,
    under_way, up_as,
};
use super::pair::{ENDS, Pair};
use super::said::is_done;
use super::setting::Setting;
use crate::exports::refusal::Refusal;
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::frames::messages::{LinkChunk, Offer, WriteWay};
use crate::peer::action::{Outcome, Withdrawal};
use crate::peer::schedule::tuning::Tuning;
use crate::types::TransferKey;
use crate::types::memory::OperationKind;
use crate::types::memory::OperationKind::{Read, Write};

/// Longest read or write on the link, and length of its chunks, in bytes.
const LONGEST: u64 = 2000;
const PART: u64 = 50;

pub(super) fn with_parts() -> Setting {
    let offer = EagerOffer {
        bytes: LITTLE as u32,
        buffer_bytes: 0,
        device_bytes: u64::MAX,
        access_bytes: LONGEST,
    };
    let tuning = Tuning { link_chunk_bytes: PART, ..SETTING.tuning };
    Setting { eager: EagerTerms::agree(offer, offer, CHUNK_BYTES), tuning, ..SETTING }
}

/// Returns the same where the kernel takes one chunk at a time.
pub(super) fn slowly() -> Setting {
    Setting { link_is_full: true, ..with_parts() }
}

/// Moves what is under way, and has each end say what the link has room for.
fn step(pair: &mut Pair) {
    pair.deliver_all().unwrap();
    for end in ENDS {
        pair.ends[end].round().unwrap();
    }
}

/// Returns the bytes of the chunks of this end that are under way.
fn chunks(pair: &Pair, end: usize) -> Vec<u32> {
    let chunks = under_way(pair, end).into_iter().filter_map(|frame| match frame {
        Frame::LinkChunk(LinkChunk { bytes, .. }) => Some(*bytes),
        _ => None,
    });
    chunks.collect()
}

#[test]
fn a_write_is_a_request_with_its_parts_behind_and_an_answer() {
    let mut pair = up_as(with_parts());
    let transfer = ask(&mut pair, Write, 2 * PART + 7);
    let said = under_way(&pair, 0);
    let is_on_link =
        |it: &&Frame| matches!(it, Frame::Offer(Offer::Write { way: WriteWay::Link, .. }));
    assert!(said.iter().any(is_on_link));
    assert_eq!(chunks(&pair, 0), [50, 50, 7], "nothing is waited for");
    hear(&mut pair, 1);
    assert!(under_way(&pair, 1).into_iter().all(is_done));
    hear(&mut pair, 0);
    assert_eq!((outcome(&pair, transfer), check_moved(&pair, transfer)), (Outcome::Done, 107));
    settle(&mut pair);
}

#[test]
fn a_read_is_answered_with_its_parts() {
    let mut pair = up_as(with_parts());
    let transfer = ask(&mut pair, Read, 2 * PART + 7);
    hear(&mut pair, 1);
    assert_eq!(chunks(&pair, 1), [50, 50, 7]);
    let area = pair.ends[1].exporting.areas[0].clone();
    assert!(pair.ends[1].exporting.is_idle(&area), "all of it is said");
    hear(&mut pair, 0);
    assert_eq!((outcome(&pair, transfer), check_moved(&pair, transfer)), (Outcome::Done, 107));
    settle(&mut pair);
}

#[test]
fn everything_is_moved_over_a_slow_link() {
    for kind in [Read, Write] {
        let mut pair = up_as(slowly());
        let transfers = [1, PART, PART + 1, LONGEST, 77].map(|bytes| ask(&mut pair, kind, bytes));
        settle(&mut pair);
        assert!(transfers.iter().all(|it| outcome(&pair, *it) == Outcome::Done), "{kind}");
    }
}

#[test]
fn operations_take_turns_and_what_is_little_passes() {
    for (kind, sender) in [(Write, 0), (Read, 1)] {
        let mut pair = up_as(slowly());
        let [first, second] = [(); 2].map(|()| ask(&mut pair, kind, 20 * PART));
        (0..20).for_each(|_| step(&mut pair));
        let moved = [first, second].map(|transfer| check_moved(&pair, transfer));
        let [least, most] = [2 * PART, 18 * PART];
        assert!(moved.iter().all(|bytes| (least..most).contains(bytes)), "{kind}: {moved:?}");
        pair.ends[sender].notify(3).unwrap();
        (0..2).for_each(|_| step(&mut pair));
        assert!(pair.ends[sender].notes.sent.is_empty(), "{kind}: a chunk is between, no more");
        settle(&mut pair);
        assert_eq!([first, second].map(|it| outcome(&pair, it)), [Outcome::Done; 2]);
    }
}

#[test]
fn no_more_travels_so_at_a_time_than_agreed() {
    for kind in [Read, Write] {
        let mut pair = up_as(slowly());
        let all = [LONGEST, LONGEST, LONGEST + 1, LITTLE].map(|bytes| ask(&mut pair, kind, bytes));
        (0..8).for_each(|_| step(&mut pair));
        let is_waiting = |transfer| end_of(&pair, transfer).is_none();
        assert!(is_waiting(all[1]) && is_waiting(all[2]), "{kind}: those travel in chunks");
        let on_link =
            [0, 1].map(|end| pair.ends[end].protocol().unwrap().one_sided.counts().on_link);
        let [of_writes, of_reads] = [on_link[0][0], on_link[1][1]];
        assert!(of_writes.max(of_reads) <= LONGEST, "{kind}: {on_link:?}");
        settle(&mut pair);
        assert!(all.iter().all(|it| outcome(&pair, *it) == Outcome::Done), "{kind}");
    }
}

/// Returns a write with some chunks in place and the next one under way.
fn begun(kind: OperationKind) -> (Pair, TransferKey) {
    let mut pair = up_as(slowly());
    let transfer = ask(&mut pair, kind, LONGEST);
    for _ in 0..20 {
        if check_moved(&pair, transfer) >= 2 * PART {
            break;
        }
        step(&mut pair);
    }
    assert!(check_moved(&pair, transfer) >= 2 * PART);
    assert!(check_moved(&pair, transfer) < LONGEST - PART);
    (pair, transfer)
}

#[test]
fn a_write_that_is_cancelled_stops_at_once_and_ends_with_its_answer() {
    let (mut pair, transfer) = begun(Write);
    let scheduled = check_moved(&pair, transfer)
        + chunks(&pair, 0).iter().map(|it| u64::from(*it)).sum::<u64>();
    pair.ends[0].cancel_request(transfer).unwrap();
    assert_eq!(end_of(&pair, transfer), None, "the peer is to say what has become of it");
    settle(&mut pair);
    assert_eq!((outcome(&pair, transfer), check_moved(&pair, transfer)), (CANCELLED, scheduled));
}

#[test]
fn a_read_that_is_cancelled_stops_when_the_target_hears_of_it() {
    let (mut pair, transfer) = begun(Read);
    pair.ends[0].cancel_request(transfer).unwrap();
    assert_eq!(end_of(&pair, transfer), None, "chunks may be on their way");
    pair.deliver(1).unwrap();
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), CANCELLED);
    assert!(check_moved(&pair, transfer) < LONGEST);
}

/// The target does not wait for its peer.
#[test]
fn memory_that_is_taken_back_is_free_at_once() {
    for kind in [Read, Write] {
        let (mut pair, transfer) = begun(kind);
        pair.ends[1].unexport(0).unwrap();
        let area = pair.ends[1].exporting.areas[0].clone();
        assert!(pair.ends[1].exporting.is_idle(&area), "{kind}");
        let before = check_moved(&pair, transfer);
        settle(&mut pair);
        let revoked = Outcome::Refused { why: Refusal::Revoked, range: 0 };
        assert_eq!(outcome(&pair, transfer), revoked, "{kind}");
        let at_most = if kind == Write { before } else { before + PART };
        assert!(check_moved(&pair, transfer) <= at_most, "{kind}: nothing is placed any more");
    }
}

#[test]
fn chunks_of_a_refused_write_are_discarded() {
    for setting in [with_parts(), slowly()] {
        let mut pair = up_as(setting);
        let transfer = ask(&mut pair, Write, 50);
        settle(&mut pair);
        pair.ends[1].unexport(0).unwrap();
        for _ in 0..3 {
            post(&mut pair, transfer, Some(vec![1; 9].into()));
            settle(&mut pair);
            assert!(matches!(outcome(&pair, transfer), Outcome::Refused { .. }));
        }
        let long = ask(&mut pair, Write, LONGEST);
        settle(&mut pair);
        assert!(matches!(outcome(&pair, long), Outcome::Refused { .. }));
        assert_eq!(check_moved(&pair, long), 0);
    }
}

#[test]
fn a_refusal_and_a_cancel_cross() {
    let (mut pair, transfer) = begun(Write);
    pair.ends[0].cancel_request(transfer).unwrap();
    pair.ends[1].unexport(0).unwrap();
    settle(&mut pair);
    assert_eq!(outcome(&pair, transfer), CANCELLED);
}

#[test]
fn chunks_that_cross_a_goodbye_end_with_it() {
    let mut pair = up_as(slowly());
    pair.ends[1].disconnect().unwrap();
    let transfer = ask(&mut pair, Write, LONGEST);
    pair.settle().unwrap();
    assert_eq!(outcome(&pair, transfer), Outcome::Withdrawn(Withdrawal::PeerLeft));
    pair.check_end(false).unwrap();
}

#[test]
fn a_cancel_of_discarded_chunks_is_ignored() {
    let mut pair = up_as(slowly());
    let transfer = ask(&mut pair, Write, LONGEST);
    pair.ends[1].disconnect().unwrap();
    step(&mut pair);
    pair.ends[0].cancel_request(transfer).unwrap();
    pair.settle().unwrap();
    assert!(matches!(outcome(&pair, transfer), Outcome::Withdrawn(_)));
    pair.check_end(false).unwrap();
}

#[test]
fn who_leaves_finishes_what_has_begun() {
    for kind in [Read, Write] {
        for end in ENDS {
            let (mut pair, transfer) = begun(kind);
            pair.ends[end].disconnect().unwrap();
            pair.settle().unwrap();
            assert_eq!(outcome(&pair, transfer), Outcome::Done, "{kind}, {end} leaves");
            pair.check_end(false).unwrap();
        }
    }
}

#[test]
fn a_link_that_is_cut_between_parts_ends_everything() {
    for kind in [Read, Write] {
        for disturbs in [false, true] {
            for at in 0..12 {
                let mut pair = up_as(slowly());
                let transfer = prepare(&mut pair, kind, LONGEST);
                post(&mut pair, transfer, Some(vec![1; 2].into()));
                pair.cut([at / 3, at]);
                pair.deliver(1).unwrap();
                if disturbs {
                    pair.ends[1].unexport(0).unwrap();
                }
                let told = pair.settle().and_then(|()| pair.check_end(true));
                told.unwrap_or_else(|wrong| panic!("{kind} {disturbs} {at}: {wrong}"));
                let area = pair.ends[1].exporting.areas[0].clone();
                assert!(pair.ends[1].exporting.is_idle(&area), "{kind} {disturbs} {at}");
            }
        }
    }
}
