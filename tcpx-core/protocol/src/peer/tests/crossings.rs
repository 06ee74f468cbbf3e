//! Crossings on the link, step by step.

use std::time::Duration;

use smallvec::SmallVec;

use super::driver::{End, Over, PEER_TIMEOUT};
use super::exporting::no_exports;
use super::pair::{ENDS, Pair};
use super::setting::{AMPLE, DEAL_AT_ONCE, KEEPS_ALL, Setting};
use crate::frames::eager_terms::EagerTerms;
use crate::frames::frame::Frame;
use crate::peer::SLICE;
use crate::peer::action::{Action, Ending, Outcome, Withdrawal};
use crate::peer::lifecycle::stage::PeerStage;
use crate::peer::tags::posting::PostError;
use crate::peer::violation::Violation;
use crate::types::{Direction, MemoryType, TransferKey};

pub(super) const SETTING: Setting = Setting {
    channels: 2,
    staging: u16::MAX,
    staging_is_late: false,
    copier: None,
    tuning: DEAL_AT_ONCE,
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

pub(super) fn up() -> Pair {
    Pair::up([SETTING; 2])
}

pub(super) fn post(
    pair: &mut Pair,
    end: usize,
    direction: Direction,
    tag: i64,
    bytes: u64,
) -> TransferKey {
    let message = (tag, bytes, MemoryType::Device, false);
    pair.ends[end].post(direction, &[message]).unwrap();
    pair.ends[end].posted.keys().last().expect("it is up")
}

fn ended(pair: &Pair, end: usize, transfer: TransferKey) -> Option<End> {
    pair.ends[end].posted[transfer].end
}

fn outcome(pair: &Pair, end: usize, transfer: TransferKey) -> Outcome {
    match ended(pair, end, transfer) {
        Some(End::Completed(outcome)) => outcome,
        other => panic!("it ended so: {other:?}"),
    }
}

pub(super) fn assert_parted(pair: &mut Pair) {
    pair.settle().unwrap();
    for end in ENDS {
        assert_eq!(pair.ends[end].over, Some(Over::Said(Ending::Goodbye)), "end {end}");
    }
    pair.check_end(false).unwrap();
}

#[test]
fn a_cancel_that_crosses_a_goodbye_ends_its_receive_and_nothing_else() {
    let mut pair = up();
    let matched = post(&mut pair, 0, Direction::Receive, 1, 200);
    let cancelled = post(&mut pair, 0, Direction::Receive, 2, 8);
    post(&mut pair, 1, Direction::Send, 1, 200);
    pair.deliver_all().unwrap();
    // The bytes of the one have left, so the sender's goodbye is said at once; the other is
    // withdrawn meanwhile.
    while [0, 1].iter().any(|channel| pair.send_chunk(1, *channel).unwrap()) {}
    pair.ends[1].disconnect().unwrap();
    pair.ends[0].cancel(cancelled).unwrap();
    pair.settle().unwrap();
    assert_eq!(outcome(&pair, 0, matched), Outcome::Done, "its bytes have all arrived");
    assert_eq!(outcome(&pair, 0, cancelled), Outcome::Withdrawn(Withdrawal::Cancelled));
    assert_parted(&mut pair);
}

#[test]
fn a_receive_that_waits_when_the_peer_leaves_ends_with_that() {
    let mut pair = up();
    let waiting = post(&mut pair, 0, Direction::Receive, 1, 8);
    let send = post(&mut pair, 0, Direction::Send, 1, 8);
    pair.ends[1].disconnect().unwrap();
    pair.settle().unwrap();
    assert_eq!(
        [waiting, send].map(|key| outcome(&pair, 0, key)),
        [Outcome::Withdrawn(Withdrawal::PeerLeft); 2]
    );
    assert_parted(&mut pair);
}

#[test]
fn both_ends_say_goodbye_at_once() {
    let mut pair = up();
    let receives = ENDS.map(|end| post(&mut pair, end, Direction::Receive, 1, 8));
    ENDS.iter().for_each(|end| pair.ends[*end].disconnect().unwrap());
    assert_parted(&mut pair);
    for end in ENDS {
        assert_eq!(outcome(&pair, end, receives[end]), Outcome::Withdrawn(Withdrawal::Left));
    }
}

#[test]
fn a_match_that_crosses_a_cancel_wins() {
    let mut pair = up();
    let receive = post(&mut pair, 0, Direction::Receive, 1, 100);
    pair.deliver_all().unwrap();
    pair.ends[0].cancel(receive).unwrap();
    let send = post(&mut pair, 1, Direction::Send, 1, 100);
    pair.settle().unwrap();
    assert_eq!(outcome(&pair, 0, receive), Outcome::Done);
    assert_eq!(outcome(&pair, 1, send), Outcome::Done);
}

#[test]
fn a_size_that_does_not_fit_fails_at_both_ends_and_the_next_one_is_met() {
    let mut pair = up();
    let short = post(&mut pair, 0, Direction::Receive, 1, 8);
    let fits = post(&mut pair, 0, Direction::Receive, 1, 9);
    let sends = [9, 9].map(|bytes| post(&mut pair, 1, Direction::Send, 1, bytes));
    pair.settle().unwrap();
    let mismatch = Outcome::SizeMismatch { send_bytes: 9, recv_bytes: 8 };
    assert_eq!([outcome(&pair, 0, short), outcome(&pair, 1, sends[0])], [mismatch; 2]);
    assert_eq!([outcome(&pair, 0, fits), outcome(&pair, 1, sends[1])], [Outcome::Done; 2]);
}

#[test]
fn a_message_of_no_bytes_is_done_by_its_match() {
    let mut pair = up();
    let receive = post(&mut pair, 0, Direction::Receive, 1, 0);
    let send = post(&mut pair, 1, Direction::Send, 1, 0);
    pair.deliver_all().unwrap();
    assert_eq!([outcome(&pair, 0, receive), outcome(&pair, 1, send)], [Outcome::Done; 2]);
}

#[test]
fn who_leaves_before_the_peer_can_be_up_is_gone_at_once_and_tells_why() {
    let mut pair = Pair::new([SETTING; 2]);
    pair.ends[0].disconnect().unwrap();
    assert_eq!(pair.ends[0].over, Some(Over::ByDriver));
    pair.settle().unwrap();
    let aborted = Over::Said(Ending::Aborted("closed".into()));
    assert_eq!(pair.ends[1].over, Some(aborted));
}

#[test]
fn who_leaves_when_the_peer_may_be_up_says_goodbye_when_it_is_up_itself() {
    let mut pair = Pair::new([SETTING; 2]);
    ENDS.iter().for_each(|end| pair.ends[*end].listen().unwrap());
    pair.deliver_all().unwrap();
    pair.ends[0].accept_comms().unwrap();
    pair.ends[0].input(|protocol| protocol.handle_comms_connected()).unwrap();
    pair.ends[0].disconnect().unwrap();
    assert_eq!(pair.ends[0].stage(), PeerStage::Connecting);
    assert_parted(&mut pair);
}

#[test]
fn the_goodbye_of_an_unclaimed_peer_waits_for_its_name() {
    let mut pair = Pair::up([SETTING, Setting { is_named: false, ..SETTING }]);
    pair.ends[0].disconnect().unwrap();
    pair.settle().unwrap();
    assert_eq!(pair.ends[1].stage(), PeerStage::Up);
    pair.ends[1].input(|protocol| protocol.handle_named()).unwrap();
    assert_parted(&mut pair);
}

#[test]
fn an_unclaimed_peer_must_come_up_in_its_time() {
    let mut pair = Pair::new([SETTING, Setting { is_named: false, ..SETTING }]);
    pair.deliver_all().unwrap();
    let due = pair.ends[1].protocol().and_then(|protocol| protocol.next_timeout());
    assert!(due.is_some_and(|due| due <= pair.now + PEER_TIMEOUT));
    pair.pass(Duration::from_secs(30)).unwrap();
    let over = pair.ends[1].over.clone();
    assert!(matches!(over, Some(Over::Said(Ending::NeverUp { .. }))), "{over:?}");
}

#[test]
fn a_silent_peer_is_asked_and_given_up_and_one_that_answers_lives() {
    let mut pair = up();
    for _ in 0..100 {
        pair.pass(Duration::from_secs(1)).unwrap();
        pair.deliver_all().unwrap();
    }
    assert!(pair.ends.iter().all(|end| end.stage() == PeerStage::Up));
    // Nothing is awaited, so the silence does not matter.
    for _ in 0..100 {
        pair.pass(Duration::from_secs(1)).unwrap();
    }
    assert!(pair.ends.iter().all(|end| end.stage() == PeerStage::Up));
    for end in ENDS {
        post(&mut pair, end, Direction::Receive, 1, 8);
    }
    for _ in 0..13 {
        pair.pass(Duration::from_secs(1)).unwrap();
    }
    for end in ENDS {
        let over = pair.ends[end].over.clone();
        assert!(matches!(over, Some(Over::Said(Ending::Silent(_)))), "{over:?}");
    }
}

/// Seconds pass with every frame delivered, and no chunk.
fn pass_without_chunks(pair: &mut Pair, seconds: u32) {
    for _ in 0..seconds {
        pair.pass(Duration::from_secs(1)).unwrap();
        pair.deliver_all().unwrap();
    }
}

#[test]
fn a_chunk_that_is_lost_ends_the_peer_with_what_was_sent_and_what_arrived() {
    let mut pair = up();
    post(&mut pair, 0, Direction::Receive, 1, 300);
    let send = post(&mut pair, 1, Direction::Send, 1, 300);
    pair.deliver_all().unwrap();
    while [0, 1].iter().any(|channel| pair.send_chunk(1, *channel).unwrap()) {}
    assert_eq!(outcome(&pair, 1, send), Outcome::Done, "the system has the bytes");
    assert!(pair.receive_chunk(0, 0).unwrap());
    while pair.receive_chunk(0, 1).unwrap() {}
    pass_without_chunks(&mut pair, 10);
    assert!(pair.ends.iter().all(|end| end.over.is_none()), "there is time left");
    pass_without_chunks(&mut pair, 10);
    match pair.ends[0].over.clone() {
        Some(Over::Said(Ending::ChunksLost(loss))) => {
            assert_eq!((loss.channel, loss.sent, loss.arrived), (0, 3, 1));
            assert!(loss.waited >= PEER_TIMEOUT, "{loss:?}");
        }
        over => panic!("{over:?}"),
    }
    pair.settle().unwrap();
    let over = pair.ends[1].over.clone();
    assert!(matches!(over, Some(Over::Said(Ending::Aborted(_)))), "{over:?}");
    pair.check_end(true).unwrap();
}

#[test]
fn a_peer_that_has_matched_and_sends_late_is_asked_and_lives() {
    let mut pair = up();
    let receive = post(&mut pair, 0, Direction::Receive, 1, 300);
    post(&mut pair, 1, Direction::Send, 1, 300);
    pair.deliver_all().unwrap();
    pass_without_chunks(&mut pair, 100);
    pair.settle().unwrap();
    assert_eq!(outcome(&pair, 0, receive), Outcome::Done);
    ENDS.iter().for_each(|end| pair.ends[*end].disconnect().unwrap());
    assert_parted(&mut pair);
}

#[test]
fn a_loss_is_noticed_after_the_senders_goodbye_too() {
    let mut pair = up();
    post(&mut pair, 0, Direction::Receive, 1, 8);
    post(&mut pair, 1, Direction::Send, 1, 8);
    pair.deliver_all().unwrap();
    while [0, 1].iter().any(|channel| pair.send_chunk(1, *channel).unwrap()) {}
    pair.ends[1].disconnect().unwrap();
    pass_without_chunks(&mut pair, 20);
    let over = pair.ends[0].over.clone();
    assert!(matches!(over, Some(Over::Said(Ending::ChunksLost(_)))), "{over:?}");
}

#[test]
fn no_ping_is_sent_while_chunks_arrive_or_none_is_expected() {
    let mut pair = up();
    // One that waits for its send is not matched, so no chunk is expected.
    post(&mut pair, 0, Direction::Receive, 9, 8);
    for round in 0..30 {
        post(&mut pair, 0, Direction::Receive, 1, 300);
        post(&mut pair, 1, Direction::Send, 1, 300);
        pair.deliver_all().unwrap();
        while [0, 1].iter().any(|channel| pair.send_chunk(1, *channel).unwrap()) {}
        pair.pass(Duration::from_secs(1)).unwrap();
        let asked = pair.ends[0].outbox.iter().find(|frame| **frame == Frame::Ping);
        assert_eq!(asked, None, "round {round}");
        while [0, 1].iter().any(|channel| pair.receive_chunk(0, *channel).unwrap()) {}
    }
}

#[test]
fn counts_of_other_channels_are_a_violation() {
    let mut pair = up();
    let Some(mut protocol) = pair.ends[0].take_protocol() else { panic!("it is up") };
    protocol.handle_frame(Frame::Pong(SmallVec::from_elem(1, 3)), &mut no_exports());
    let violation = Ending::Broken(Violation::SentChannels(3));
    let action = protocol.poll_action();
    assert!(
        matches!(&action, Some(Action::End { ending, .. }) if *ending == violation),
        "{action:?}"
    );
}

#[test]
fn time_is_asked_for_when_it_matters_and_not_before() {
    let mut pair = up();
    post(&mut pair, 0, Direction::Receive, 1, 8);
    pair.ends[0].outbox.clear();
    let mut pings = 0;
    while pair.ends[0].over.is_none() {
        let next = pair.ends[0].protocol().and_then(|protocol| protocol.next_timeout());
        let due = next.expect("it is not over");
        assert!(due > pair.now, "it asks for a time that has passed");
        pair.now = due;
        let now = pair.now;
        pair.ends[0].input(|protocol| protocol.handle_timeout(now)).unwrap();
        pings += pair.ends[0].outbox.len();
        pair.ends[0].outbox.clear();
    }
    assert!((4..10).contains(&pings), "{pings} frames");
}

#[test]
fn no_more_receives_are_announced_than_a_peer_takes() {
    let pair = up();
    let protocol = pair.ends[0].protocol().expect("it is up");
    let most = crate::peer::flow_control::MAX_POSTED_RECEIVES;
    assert_eq!(protocol.check_posts(Direction::Receive, most), Ok(()));
    let refused = Err(PostError::TooManyReceives);
    assert_eq!(protocol.check_posts(Direction::Receive, most + 1), refused);
    assert_eq!(protocol.check_posts(Direction::Send, most + 1), Ok(()));
}
