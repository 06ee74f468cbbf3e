//! Crossings of reads, writes and notifications on the link, step by step. End 0 asks, end 1
//! exports.

use OperationKind::{Read, Write};

use super::driver::{CHUNK_BYTES, End, Over};
use super::pair::{ENDS, Pair};
use super::requests::{Note, Request};
use super::said::{is_done, is_one_sided};
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL, Setting};
use crate::exports::refusal::Refusal;
use crate::frames::eager_terms::{CreditKind, EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::frames::messages::{Offer, WriteWay};
use crate::peer::SLICE;
use crate::peer::action::{Ending, Outcome, Withdrawal};
use crate::peer::one_sided::OneSidedTerms;
use crate::peer::one_sided::local_lists::ListLimits;
use crate::peer::schedule::tuning::Tuning;
use crate::types::memory::{OperationKind, RemoteAccess};
use crate::types::{MemoryType, TransferKey, note_cost};

/// A section has two chunks, and is sent before the next one is scheduled.
pub(super) const SECTION: u64 = 2 * CHUNK_BYTES as u64;
/// Bytes that make a message short enough for the link, where that is allowed.
pub(super) const LITTLE: u64 = 8;

pub(super) const SETTING: Setting = Setting {
    channels: 1,
    staging: u16::MAX,
    staging_is_late: false,
    copier: None,
    tuning: Tuning {
        short_bytes: 0,
        section_bytes: SECTION,
        ahead_bytes: SECTION,
        plan_bytes: 0,
        ..DEAL_AT_ONCE
    },
    has_progress_thread: true,
    is_named: true,
    slice: SLICE,
    bounce_pages: None,
    is_crowded: false,
    eager: EagerTerms::OFF,
    link_is_full: false,
    one_sided: AMPLE,
    kept: KEEPS_ALL,
    keeps_chunks: false,
    sends_end_late: false,
    on_demand: false,
};

/// Returns a setting in which little messages travel on the link.
pub(super) fn eager() -> Setting {
    let offer = EagerOffer {
        bytes: LITTLE as u32,
        buffer_bytes: 0,
        device_bytes: u64::MAX,
        access_bytes: 0,
    };
    Setting { eager: EagerTerms::agree(offer, offer, CHUNK_BYTES), ..SETTING }
}

/// Makes two ends that are up, and an area at the second one.
pub(super) fn up_as(setting: Setting) -> Pair {
    let mut pair = Pair::up([setting; 2]);
    export(&mut pair);
    pair
}

pub(super) fn up() -> Pair {
    up_as(SETTING)
}

fn export(pair: &mut Pair) -> usize {
    pair.ends[1].exporting.export(6000, MemoryType::Device, RemoteAccess::ReadWrite)
}

fn prepare_of(pair: &mut Pair, kind: OperationKind, bytes: u64, number: usize) -> TransferKey {
    let area = pair.ends[1].exporting.areas[number].clone();
    let requests = &mut pair.ends[0].requests;
    let transfer = requests.next_transfer();
    let request = Request::of_one(requests, kind, (number, &area), bytes);
    requests.all.insert(transfer, request);
    transfer
}

pub(super) fn prepare(pair: &mut Pair, kind: OperationKind, bytes: u64) -> TransferKey {
    prepare_of(pair, kind, bytes, 0)
}

pub(super) fn post(pair: &mut Pair, transfer: TransferKey, note: Option<Note>) {
    pair.check_requests().unwrap();
    assert!(pair.ends[0].post_request(transfer, note).unwrap(), "it may be posted");
}

/// Prepares and posts an operation.
pub(super) fn ask(pair: &mut Pair, kind: OperationKind, bytes: u64) -> TransferKey {
    let transfer = prepare(pair, kind, bytes);
    post(pair, transfer, None);
    transfer
}

pub(super) fn end_of(pair: &Pair, transfer: TransferKey) -> Option<End> {
    pair.ends[0].requests.all[&transfer].post.as_ref().expect("it was posted").end
}

pub(super) fn outcome(pair: &Pair, transfer: TransferKey) -> Outcome {
    match end_of(pair, transfer) {
        Some(End::Completed(outcome)) => outcome,
        other => panic!("it ended so: {other:?}"),
    }
}

pub(super) fn check_moved(pair: &Pair, transfer: TransferKey) -> u64 {
    let post = pair.ends[0].requests.all[&transfer].post.as_ref().expect("it was posted");
    post.in_place.values().sum()
}

pub(super) const CANCELLED: Outcome = Outcome::Withdrawn(Withdrawal::Cancelled);

pub(super) fn refused(why: Refusal) -> Outcome {
    Outcome::Refused { why, range: 0 }
}

/// Frames of this end about reads, writes and notifications that are under way.
pub(super) fn under_way(pair: &Pair, end: usize) -> Vec<&Frame> {
    pair.ends[end].outbox.iter().filter(|frame| is_one_sided(frame)).collect()
}

fn is_inline(frame: &Frame) -> bool {
    matches!(frame, Frame::Offer(Offer::Write { way: WriteWay::Inline(_), .. }))
}

/// Lets this end read everything; what it answers is under way.
pub(super) fn hear(pair: &mut Pair, end: usize) {
    while pair.deliver(end).unwrap() {}
}

pub(super) fn settle(pair: &mut Pair) {
    pair.settle().unwrap();
    pair.check_at_rest().unwrap();
}

pub(super) fn assert_parted(pair: &mut Pair) {
    pair.settle().unwrap();
    for end in ENDS {
        assert_eq!(pair.ends[end].over, Some(Over::Said(Ending::Goodbye)), "end {end}");
    }
    pair.check_end(false).unwrap();
}

/// Moves chunks, and no frame.
pub(super) fn move_chunks(pair: &mut Pair, sender: usize) {
    while pair.send_chunk(sender, 0).unwrap()
        || pair.receive_chunk(1 - sender, 0).unwrap()
        || pair.consume_chunk(1 - sender, 0).unwrap()
    {}
}

#[test]
fn each_kind_of_operation_is_done_and_done_again() {
    for setting in [SETTING, eager(), Setting { sends_end_late: true, ..SETTING }] {
        for kind in [Read, Write] {
            for bytes in [1, LITTLE, 64, 65, SECTION, 1000] {
                let mut pair = up_as(setting);
                let transfer = prepare(&mut pair, kind, bytes);
                for note in [None, Some(vec![].into()), Some(vec![7; 9].into())] {
                    post(&mut pair, transfer, note);
                    settle(&mut pair);
                    assert_eq!(outcome(&pair, transfer), Outcome::Done);
                }
                let lists = pair.ends[0].protocol().map(|it| it.one_sided.counts().lists_told);
                assert_eq!(lists, Some((1, 1)), "told once");
                pair.ends[0].drop_request(transfer).unwrap();
                settle(&mut pair);
                let lists = pair.ends[0].protocol().map(|it| it.one_sided.counts().lists_told);
                assert_eq!(lists, Some((0, 0)));
            }
        }
    }
}

/// Also where no message travels on the link.
#[test]
fn a_notification_is_answered_when_it_is_there() {
    for setting in [SETTING, eager()] {
        let mut pair = up_as(setting);
        let requests = &mut pair.ends[0].requests;
        let (transfer, request) = (requests.next_transfer(), Request::of_none(requests));
        requests.all.insert(transfer, request);
        for note in [Some(vec![7; 9].into()), Some(vec![].into()), None] {
            post(&mut pair, transfer, note);
            let said = under_way(&pair, 0);
            assert!(said.last().is_some_and(|it| is_inline(it)), "{said:?}");
            hear(&mut pair, 1);
            assert_eq!(end_of(&pair, transfer), None);
            hear(&mut pair, 0);
            assert_eq!(outcome(&pair, transfer), Outcome::Done);
            settle(&mut pair);
        }
    }
}

/// Writes with notes for which there is always room again, to a program that takes one at a time.
#[test]
fn writes_with_notes_do_not_starve_a_notification() {
    let buffer = 2 * note_cost(40);
    let mut pair = up_as(Setting {
        one_sided: OneSidedTerms { note_bytes: buffer, queued_note_bytes: buffer, ..AMPLE },
        ..eager()
    });
    let transfers: Vec<_> = (0..3).map(|_| prepare(&mut pair, Write, LITTLE)).collect();
    for transfer in &transfers {
        post(&mut pair, *transfer, Some(vec![1; 40].into()));
    }
    pair.settle().unwrap();
    // Longer than what one that is taken leaves room for.
    pair.ends[0].notify(80).unwrap();
    for round in 0.. {
        assert!(round < 9, "the notification does not arrive");
        pair.ends[1].take_notes(1).unwrap();
        pair.settle().unwrap();
        for transfer in &transfers {
            if end_of(&pair, *transfer).is_some() {
                post(&mut pair, *transfer, Some(vec![1; 40].into()));
            }
        }
        if pair.ends[0].notes.sent.is_empty() {
            break;
        }
    }
    while pair.ends[1].take_notes(1).unwrap() {
        pair.settle().unwrap();
    }
    settle(&mut pair);
    for transfer in transfers {
        assert_eq!(outcome(&pair, transfer), Outcome::Done, "nor do notifications starve writes");
    }
}

#[test]
fn a_little_write_is_one_frame_and_its_answer() {
    let mut pair = up_as(eager());
    let transfer = ask(&mut pair, Write, LITTLE);
    let said = under_way(&pair, 0);
    assert!(said.last().is_some_and(|it| is_inline(it)), "{said:?}");
    hear(&mut pair, 1);
    let said = under_way(&pair, 1);
    assert!(said.len() == 1 && is_done(said[0]), "{said:?}");
    hear(&mut pair, 0);
    assert_eq!(outcome(&pair, transfer), Outcome::Done);
}

#[test]
fn a_list_is_not_forgotten_before_the_answer() {
    let mut pair = up_as(eager());
    let transfer = ask(&mut pair, Write, LITTLE);
    hear(&mut pair, 1);
    pair.ends[0].drop_request(transfer).unwrap();
    assert!(under_way(&pair, 0).is_empty(), "its answer is under way");
    hear(&mut pair, 0);
    assert!(matches!(under_way(&pair, 0)[..], [Frame::Forget { list: 0 }]));
    settle(&mut pair);
}

#[test]
fn one_list_makes_room_for_the_next_with_each_request_of_it() {
    let lists = ListLimits { lists: 1, ranges: 1 };
    for kind in [Read, Write] {
        for setting in [SETTING, eager()] {
            let one_sided = OneSidedTerms { lists, ..AMPLE };
            let mut pair = up_as(Setting { one_sided, ..setting });
            let transfers = [(); 5].map(|()| ask(&mut pair, kind, LITTLE));
            settle(&mut pair);
            for transfer in transfers {
                assert_eq!(outcome(&pair, transfer), Outcome::Done);
            }
        }
    }
}

#[test]
fn room_that_was_given_back_and_a_note_cross_at_a_full_buffer() {
    let setting = Setting {
        one_sided: OneSidedTerms { note_bytes: 330, queued_note_bytes: 330, ..AMPLE },
        ..SETTING
    };
    let mut pair = up_as(setting);
    for _ in 0..4 {
        pair.ends[0].notify(40).unwrap();
    }
    assert_eq!(under_way(&pair, 0).len(), 3, "the fourth has no room");
    hear(&mut pair, 1);
    pair.check_requests().unwrap();
    pair.ends[1].take_notes(1).unwrap();
    let more = Frame::may_send(CreditKind::Notes, 330 + 104);
    assert_eq!(pair.ends[1].outbox.back(), Some(&more));
    pair.ends[0].notify(0).unwrap();
    assert!(under_way(&pair, 0).is_empty(), "it does not overtake the one that waits");
    hear(&mut pair, 0);
    assert_eq!(under_way(&pair, 0).len(), 1, "one place is free");
    settle(&mut pair);
}

#[test]
fn a_write_with_a_note_waits_for_room_and_lets_others_pass() {
    let setting = Setting {
        one_sided: OneSidedTerms { note_bytes: 330, queued_note_bytes: 330, ..AMPLE },
        ..SETTING
    };
    let mut pair = up_as(setting);
    let [noted, plain] = [(); 2].map(|()| prepare(&mut pair, Write, 8));
    for _ in 0..3 {
        pair.ends[0].notify(40).unwrap();
    }
    post(&mut pair, noted, Some(vec![0; 40].into()));
    post(&mut pair, plain, None);
    let is_request = |frame: &&&Frame| matches!(frame, Frame::Offer(Offer::Write { .. }));
    assert_eq!(under_way(&pair, 0).iter().filter(is_request).count(), 1);
    settle(&mut pair);
    assert_eq!([noted, plain].map(|it| outcome(&pair, it)), [Outcome::Done; 2]);
}

#[test]
fn notes_of_refused_writes_take_no_room_for_ever() {
    let setting = Setting {
        one_sided: OneSidedTerms { note_bytes: 330, queued_note_bytes: 330, ..AMPLE },
        ..SETTING
    };
    let mut pair = up_as(setting);
    let transfer = prepare(&mut pair, Write, 8);
    pair.ends[1].unexport(0).unwrap();
    for _ in 0..20 {
        post(&mut pair, transfer, Some(vec![0; 100].into()));
        settle(&mut pair);
        assert_eq!(outcome(&pair, transfer), refused(Refusal::Revoked));
    }
}

#[test]
fn an_answer_may_come_before_the_sends_have_ended() {
    let mut pair = up_as(Setting { sends_end_late: true, ..SETTING });
    let transfer = ask(&mut pair, Write, SECTION);
    pair.deliver_all().unwrap();
    move_chunks(&mut pair, 0);
    pair.deliver_all().unwrap();
    assert_eq!(end_of(&pair, transfer), None, "its memory is in use");
    pair.ends[1].disconnect().unwrap();
    pair.deliver_all().unwrap();
    assert!(pair.ends[0].end_send(0).unwrap() && pair.ends[0].end_send(0).unwrap());
    assert_eq!(outcome(&pair, transfer), Outcome::Done);
    assert_parted(&mut pair);
}

/// Event in a flow, besides asking.
#[derive(Clone, Copy, Debug)]
enum Twist {
    None,
    Cancel,
    Unexport,
    Disconnect(usize),
}

#[test]
fn a_link_that_is_cut_after_any_frame_ends_everything_and_frees_what_was_exported() {
    let twists =
        [Twist::None, Twist::Cancel, Twist::Unexport, Twist::Disconnect(0), Twist::Disconnect(1)];
    for setting in [SETTING, eager(), Setting { sends_end_late: true, ..SETTING }] {
        for (kind, bytes) in [(Read, LITTLE), (Read, 500), (Write, LITTLE), (Write, 500)] {
            for twist in twists {
                for at in 0..100 {
                    let mut pair = up_as(setting);
                    let transfer = prepare(&mut pair, kind, bytes);
                    post(&mut pair, transfer, Some(vec![1; 2].into()));
                    pair.ends[0].notify(4).unwrap();
                    pair.cut([at % 10, at / 10]);
                    pair.deliver(1).unwrap();
                    pair.deliver(1).unwrap();
                    match twist {
                        Twist::None => {}
                        Twist::Cancel => pair.ends[0].cancel_request(transfer).unwrap(),
                        Twist::Unexport => pair.ends[1].unexport(0).unwrap(),
                        Twist::Disconnect(end) => pair.ends[end].disconnect().unwrap(),
                    }
                    let told = pair.settle().and_then(|()| pair.check_end(true));
                    told.unwrap_or_else(|wrong| panic!("{kind} {bytes} {twist:?} {at}: {wrong}"));
                    let area = pair.ends[1].exporting.areas[0].clone();
                    assert!(pair.ends[1].exporting.is_idle(&area), "{kind} {twist:?} {at}");
                }
            }
        }
    }
}
