//! Ends that may only send what the other has room for.

use super::exporting::no_exports;
use super::pair::Pair;
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL, Setting, WHOLE};
use crate::frames::eager_terms::EagerTerms;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::peer::SLICE;
use crate::peer::action::{Action, Ending, Violation};
use crate::types::{Direction, MemoryType};

const SETTING: Setting = Setting {
    channels: 2,
    staging: u16::MAX,
    staging_is_late: false,
    copier: None,
    cutting: WHOLE,
    dealing: DEAL_AT_ONCE,
    has_progress_thread: true,
    is_named: true,
    slice: SLICE,
    bounce_pages: Some(2),
    is_crowded: false,
    eager: EagerTerms::OFF,
    link_is_full: false,
    one_sided: AMPLE,
    kept: KEEPS_ALL,
    sends_end_late: false,
    on_demand: false,
};

fn post(pair: &mut Pair, bytes: u64) {
    for (end, direction) in [(0, Direction::Send), (1, Direction::Receive)] {
        pair.ends[end].post(direction, &[(1, bytes, MemoryType::Device, false)]).unwrap();
    }
    pair.deliver_all().unwrap();
}

/// Sends what may be sent. How many chunks.
fn send_all(pair: &mut Pair) -> usize {
    (0..2).map(|channel| std::iter::from_fn(|| sends(pair, channel)).count()).sum()
}

fn sends(pair: &mut Pair, channel: usize) -> Option<()> {
    pair.send_chunk(0, channel).unwrap().then_some(())
}

#[test]
fn a_chunk_on_each_channel_goes_at_once_and_one_more_for_each_that_is_consumed() {
    let mut pair = Pair::up([SETTING; 2]);
    post(&mut pair, 10 * 64);
    assert_eq!(send_all(&mut pair), 2);
    assert!(pair.receive_chunk(1, 1).unwrap());
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(send_all(&mut pair), 0, "it has arrived, and is where it was");
    assert!(pair.ends[1].consume_chunk(1).unwrap());
    assert_eq!(send_all(&mut pair), 0, "the sender does not know");
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(send_all(&mut pair), 1);
    pair.settle().unwrap();
    assert!(pair.ends[1].posted.values().all(|posted| posted.end.is_some()));
}

#[test]
fn what_is_matched_gets_more_where_there_is_more() {
    let setting = Setting { bounce_pages: Some(12), ..SETTING };
    let mut pair = Pair::up([setting; 2]);
    post(&mut pair, 100 * 64);
    assert_eq!(send_all(&mut pair), 2, "the first go before the match is read");
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(send_all(&mut pair), 6, "five to the one, and half of what is left to the other");
}

#[test]
fn a_channel_begins_without_credit_where_others_have_all_of_it() {
    let setting = Setting { channels: 3, bounce_pages: Some(4), is_crowded: true, ..SETTING };
    let mut pair = Pair::up([setting; 2]);
    post(&mut pair, 3 * 64);
    assert_eq!((send_all(&mut pair), sends(&mut pair, 2)), (2, None));
    pair.ends[1].round().unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(sends(&mut pair, 2), None, "nobody has given anything back");
    pair.settle().unwrap();
    assert!(pair.ends[0].posted.values().all(|posted| posted.end.is_some()));
}

#[test]
fn an_end_that_counts_nothing_sends_no_credit() {
    let setting = Setting { bounce_pages: None, ..SETTING };
    let mut pair = Pair::up([setting; 2]);
    post(&mut pair, 100 * 64);
    assert_eq!(send_all(&mut pair), 100);
}

/// What an end says of a peer whose credit is not right.
fn violation(frames: impl IntoIterator<Item = Frame>) -> Option<Violation> {
    let mut pair = Pair::up([SETTING; 2]);
    let mut protocol = pair.ends[0].take_protocol().expect("it is up");
    for frame in frames {
        protocol.handle_frame(frame, &mut no_exports());
    }
    std::iter::from_fn(|| protocol.poll_action()).find_map(|action| match action {
        Action::End { ending: Ending::Broken(violation), .. } => Some(violation),
        _ => None,
    })
}

#[test]
fn credit_only_grows_and_is_for_every_channel() {
    let credit = |chunks: &[u64]| Frame::Credit(ChunkCounts::from_slice(chunks));
    assert_eq!(violation([credit(&[1, 1]), credit(&[5, 1]), credit(&[5, u64::MAX])]), None);
    let taken_back = Violation::CreditTakenBack { channel: 1, before: 7, now: 6 };
    assert_eq!(violation([credit(&[1, 7]), credit(&[2, 6])]), Some(taken_back));
    assert_eq!(violation([credit(&[2])]), Some(Violation::CreditChannels(1)));
    assert_eq!(violation([credit(&[])]), Some(Violation::CreditChannels(0)));
    let again = violation([Frame::Ready { credit: ChunkCounts::new() }]);
    assert!(matches!(again, Some(Violation::Unexpected { .. })), "{again:?}");
}
