//! Channels that are made when something needs them.

use std::time::Duration;

use super::crossings::{self, post};
use super::driver::{CONNECT_TIMEOUT, End, Over};
use super::exporting::no_exports;
use super::one_sided_crossings::{self as one_sided, CANCELLED, ask, prepare};
use super::pair::{ENDS, Pair};
use super::said::matched;
use super::setting::Setting;
use crate::frames::eager_terms::{CreditKind, EagerOffer, EagerTerms};
use crate::frames::fields::{ChannelHandle, HANDLE_BYTES};
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::messages::{Offer, Ready};
use crate::peer::PeerProtocol;
use crate::peer::action::{Action, Ending, Outcome};
use crate::peer::lifecycle::stage::PeerStage;
use crate::peer::schedule::tuning::Tuning;
use crate::peer::violation::Violation;
use crate::types::Direction::{Receive, Send};
use crate::types::TransferKey;
use crate::types::memory::OperationKind::{Read, Write};

/// Longest message on the link.
const LITTLE: u64 = 8;
/// Of messages and operations that need channels.
const MUCH: u64 = 300;

fn on_demand(setting: Setting) -> Setting {
    let bytes = LITTLE as u32;
    let offer = EagerOffer { bytes, buffer_bytes: 1000, device_bytes: u64::MAX, access_bytes: 0 };
    Setting { eager: EagerTerms::agree(offer, offer, 64), on_demand: true, ..setting }
}

fn up() -> Pair {
    Pair::up([on_demand(crossings::SETTING); 2])
}

fn up_with_exports() -> Pair {
    one_sided::up_as(on_demand(one_sided::SETTING))
}

/// Returns whether the ends have begun to make channels, or have made them.
fn have_begun(pair: &Pair) -> [bool; 2] {
    ENDS.map(|end| pair.ends[end].is_opening || pair.ends[end].is_open)
}

fn assert_done(pair: &Pair, end: usize, transfers: &[TransferKey]) {
    for transfer in transfers {
        let end = pair.ends[end].posted[*transfer].end;
        assert_eq!(end, Some(End::Completed(Outcome::Done)));
    }
}

/// Returns the number of handles that an end has said and the other has not read.
fn handles_under_way(pair: &Pair, end: usize) -> usize {
    pair.ends[end].outbox.iter().filter(|frame| matches!(frame, Frame::Handles(_))).count()
}

/// What a program asks for first does not depend on how soon the peer says its first words.
#[test]
fn what_is_an_ends_own_needs_no_word_of_its_peer() {
    let mut pair = Pair::new([on_demand(crossings::SETTING); 2]);
    let send = post(&mut pair, 0, Send, 1, LITTLE);
    let receive = post(&mut pair, 0, Receive, 2, LITTLE);
    pair.ends[0].notify(3).unwrap();
    assert_done(&pair, 0, &[send]);
    let said: Vec<_> = pair.ends[0].outbox.iter().collect();
    assert!(
        said.iter().any(|frame| matches!(frame, Frame::Offer(Offer::Eager { .. }))),
        "{said:?}"
    );
    assert!(
        said.iter().any(|frame| matches!(frame, Frame::Ready(Ready::Receive { .. }))),
        "{said:?}"
    );
    assert!(said.iter().any(|frame| matches!(frame, Frame::Offer(Offer::Note { .. }))), "{said:?}");
    let others = [post(&mut pair, 1, Receive, 1, LITTLE), post(&mut pair, 1, Send, 2, LITTLE)];
    pair.settle().unwrap();
    assert_done(&pair, 0, &[receive]);
    assert_done(&pair, 1, &others);
}

#[test]
fn what_the_link_carries_needs_none() {
    let mut pair = up_with_exports();
    let receive = post(&mut pair, 1, Receive, 1, LITTLE);
    let send = post(&mut pair, 0, Send, 1, LITTLE);
    let ahead = post(&mut pair, 0, Send, 2, LITTLE);
    let empty = [post(&mut pair, 1, Receive, 3, 0), post(&mut pair, 0, Send, 3, 0)];
    let late = post(&mut pair, 1, Receive, 2, LITTLE);
    pair.ends[0].notify(3).unwrap();
    for kind in [Read, Write] {
        ask(&mut pair, kind, LITTLE);
    }
    pair.settle().unwrap();
    assert_done(&pair, 0, &[send, ahead, empty[1]]);
    assert_done(&pair, 1, &[receive, late, empty[0]]);
    assert_eq!(have_begun(&pair), [false; 2]);
    ENDS.iter().for_each(|end| pair.ends[*end].disconnect().unwrap());
    crossings::assert_parted(&mut pair);
}

#[test]
fn both_ends_may_begin_at_once() {
    let mut pair = up();
    let receives = ENDS.map(|end| post(&mut pair, end, Receive, 1, MUCH));
    pair.deliver_all().unwrap();
    assert_eq!(have_begun(&pair), [false; 2], "nothing is sent yet");
    let sends = ENDS.map(|end| post(&mut pair, end, Send, 1, MUCH));
    assert_eq!(have_begun(&pair), [true; 2]);
    ENDS.iter().for_each(|end| pair.ends[*end].listen().unwrap());
    assert_eq!(ENDS.map(|end| handles_under_way(&pair, end)), [1; 2]);
    pair.settle().unwrap();
    ENDS.iter().for_each(|end| assert_done(&pair, *end, &[receives[*end], sends[*end]]));
    ENDS.iter().for_each(|end| pair.ends[*end].disconnect().unwrap());
    crossings::assert_parted(&mut pair);
}

#[test]
fn the_handles_of_one_end_have_the_other_begin() {
    for kind in [Read, Write] {
        let mut pair = up_with_exports();
        let transfer = ask(&mut pair, kind, MUCH);
        pair.deliver_all().unwrap();
        // The end that sends the bytes begins.
        assert_eq!(have_begun(&pair), [kind == Write, kind == Read]);
        assert!(pair.ends.iter().all(|end| end.stage() == PeerStage::Up));
        pair.settle().unwrap();
        assert_eq!(one_sided::outcome(&pair, transfer), Outcome::Done);
        assert_eq!(ENDS.map(|end| pair.ends[end].is_open), [true; 2]);
    }
}

#[test]
fn messages_of_a_tag_keep_their_order_while_channels_are_made() {
    for steps in 0..12 {
        let mut pair = up();
        let sizes = [LITTLE, MUCH, LITTLE, 0, MUCH, LITTLE, LITTLE, MUCH];
        let (first, rest) = sizes.split_at(3);
        let mut receives: Vec<_> =
            first.iter().map(|bytes| post(&mut pair, 1, Receive, 1, *bytes)).collect();
        pair.deliver_all().unwrap();
        let mut sends: Vec<_> =
            first.iter().map(|bytes| post(&mut pair, 0, Send, 1, *bytes)).collect();
        // Some of the rest is posted while comms are anywhere on their way.
        for step in 0..steps {
            pair.step_comms(step % 2).unwrap();
            pair.deliver(step / 2 % 2).unwrap();
        }
        sends.extend(rest.iter().map(|bytes| post(&mut pair, 0, Send, 1, *bytes)));
        receives.extend(rest.iter().map(|bytes| post(&mut pair, 1, Receive, 1, *bytes)));
        pair.settle().unwrap();
        assert_done(&pair, 0, &sends);
        assert_done(&pair, 1, &receives);
        ENDS.iter().for_each(|end| pair.ends[*end].disconnect().unwrap());
        // This looks at their order.
        crossings::assert_parted(&mut pair);
    }
}

#[test]
fn small_messages_pass_those_that_wait_for_channels() {
    let tuning = Tuning { short_bytes: LITTLE, ..one_sided::SETTING.tuning };
    let mut pair = Pair::up([on_demand(Setting { tuning, ..crossings::SETTING }); 2]);
    let receives = [MUCH, LITTLE].map(|bytes| post(&mut pair, 1, Receive, bytes as i64, bytes));
    pair.deliver_all().unwrap();
    let sends = [MUCH, LITTLE].map(|bytes| post(&mut pair, 0, Send, bytes as i64, bytes));
    assert_eq!(pair.ends[0].posted[sends[0]].end, None);
    assert_done(&pair, 0, &sends[1..]);
    pair.settle().unwrap();
    assert_done(&pair, 0, &sends);
    assert_done(&pair, 1, &receives);
}

#[test]
fn a_set_up_that_does_not_end_in_its_time_ends_the_peer() {
    let mut pair = up();
    post(&mut pair, 1, Receive, 1, MUCH);
    pair.deliver_all().unwrap();
    let send = post(&mut pair, 0, Send, 1, MUCH);
    pair.ends[0].listen().unwrap();
    pair.deliver_all().unwrap();
    // The other end hears of it and cannot listen.
    for _ in 0..CONNECT_TIMEOUT.as_secs() - 1 {
        pair.pass(Duration::from_secs(1)).unwrap();
        pair.deliver_all().unwrap();
    }
    assert!(pair.ends.iter().all(|end| end.over.is_none()), "there is time left");
    let due = pair.ends[0].protocol().and_then(|protocol| protocol.next_timeout());
    assert!(due.is_some_and(|due| due <= pair.now + Duration::from_secs(1)), "it is asked for");
    pair.pass(Duration::from_secs(1)).unwrap();
    for (end, state) in [
        (0, "proven, but its connect handles have not come"),
        (1, "connecting comms; not all of its connections have come in"),
    ] {
        let never = Ending::NeverUp { waited: CONNECT_TIMEOUT, state };
        assert_eq!(pair.ends[end].over, Some(Over::Said(never)));
    }
    assert_eq!(pair.ends[0].posted[send].end, Some(End::WithThePeer));
    pair.check_end(true).unwrap();
}

#[test]
fn a_program_that_leaves_while_channels_are_made_sends_what_was_matched_before() {
    for end in ENDS {
        let mut pair = up();
        let receive = post(&mut pair, 1, Receive, 1, MUCH);
        pair.deliver_all().unwrap();
        let send = post(&mut pair, 0, Send, 1, MUCH);
        pair.ends[end].disconnect().unwrap();
        pair.settle().unwrap();
        assert_done(&pair, 0, &[send]);
        assert_done(&pair, 1, &[receive]);
        pair.ends[1 - end].disconnect().unwrap();
        crossings::assert_parted(&mut pair);
    }
}

/// What has asked for channels is withdrawn, and both leave: the comms close with the goodbye.
#[test]
fn a_goodbye_does_not_wait_for_channels_that_nothing_needs() {
    for steps in 0..8 {
        for first in ENDS {
            let mut pair = up_with_exports();
            let transfer = prepare(&mut pair, Write, MUCH);
            one_sided::post(&mut pair, transfer, None);
            pair.deliver_all().unwrap();
            assert_eq!(have_begun(&pair), [true, false]);
            for step in 0..steps {
                pair.step_comms(step % 2).unwrap();
                pair.deliver(1 - step % 2).unwrap();
            }
            if pair.ends[0].is_open {
                break;
            }
            pair.ends[0].cancel_request(transfer).unwrap();
            ENDS.iter().for_each(|end| while pair.deliver(*end).unwrap() {});
            ENDS.iter().for_each(|end| while pair.deliver(*end).unwrap() {});
            assert_eq!(one_sided::outcome(&pair, transfer), CANCELLED);
            pair.ends[first].disconnect().unwrap();
            pair.deliver_all().unwrap();
            pair.deliver_all().unwrap();
            for end in ENDS {
                let parted = Some(Over::Said(Ending::Goodbye));
                assert_eq!(pair.ends[end].over, parted, "{first} leaves after {steps} steps");
            }
            pair.check_end(false).unwrap();
        }
    }
}

#[test]
fn handles_that_cross_a_goodbye_are_passed_over() {
    let mut pair = up_with_exports();
    let transfer = ask(&mut pair, Write, MUCH);
    pair.deliver_all().unwrap();
    pair.ends[0].cancel_request(transfer).unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(one_sided::outcome(&pair, transfer), CANCELLED);
    pair.ends[1].disconnect().unwrap();
    pair.ends[0].listen().unwrap();
    assert_eq!(handles_under_way(&pair, 0), 1);
    assert!(pair.deliver(1).unwrap());
    assert_eq!(pair.ends[1].over, None);
    crossings::assert_parted(&mut pair);
}

/// An end whose comms are there says goodbye before it hears that the other's are, which opens the
/// channels there.
#[test]
fn credit_that_crosses_a_goodbye_is_passed_over() {
    let mut pair = up_with_exports();
    let transfer = ask(&mut pair, Write, MUCH);
    pair.deliver_all().unwrap();
    for end in ENDS {
        pair.ends[end].listen().unwrap();
        pair.deliver_all().unwrap();
    }
    pair.ends[0].cancel_request(transfer).unwrap();
    pair.deliver_all().unwrap();
    assert_eq!(one_sided::outcome(&pair, transfer), CANCELLED);
    ENDS.iter().for_each(|end| assert!(pair.step_comms(*end).unwrap()));
    pair.ends[1].disconnect().unwrap();
    assert!(pair.deliver(0).unwrap() && pair.ends[0].is_open && !pair.ends[1].is_open);
    let credit = ChunkCounts::from_elem(1, one_sided::SETTING.channels.into());
    pair.ends[0].input(|protocol| protocol.handle_credit(credit.clone())).unwrap();
    let said: Vec<_> = pair.ends[0].outbox.iter().collect();
    let credit = Frame::Credit { what: CreditKind::Chunks, counts: credit };
    assert!(said.contains(&&credit), "{said:?}");
    crossings::assert_parted(&mut pair);
}

#[test]
fn a_link_that_is_cut_while_channels_are_made_ends_everything() {
    for at in 0..12 {
        let mut pair = up();
        post(&mut pair, 1, Receive, 1, MUCH);
        post(&mut pair, 0, Receive, 2, MUCH);
        pair.deliver_all().unwrap();
        post(&mut pair, 0, Send, 1, MUCH);
        pair.cut([at / 3, at % 3]);
        post(&mut pair, 1, Send, 2, MUCH);
        let told = pair.settle().and_then(|()| pair.check_end(true));
        told.unwrap_or_else(|wrong| panic!("{at}: {wrong}"));
    }
}

/// Lets an end hear frames of the peer, until it finds fault with one. Returns the ending.
fn hear(protocol: &mut PeerProtocol, frames: Vec<Frame>) -> Option<Ending> {
    let mut exports = no_exports();
    frames.into_iter().for_each(|frame| drop(protocol.handle_frame(frame, &mut exports)));
    let actions = std::iter::from_fn(|| protocol.poll_action());
    actions.into_iter().find_map(|action| match action {
        Action::End { ending, .. } => Some(ending),
        _ => None,
    })
}

#[test]
fn handles_that_come_again_and_chunks_without_channels_are_violations() {
    let handles = |count| Frame::Handles(vec![ChannelHandle([0; HANDLE_BYTES]); count]);
    let ready = || Frame::Open { credit: ChunkCounts::new() };
    let unexpected = |frame: Frame| {
        let frame = format!("{frame:?}");
        Violation::Unexpected { frame, state: "up" }
    };
    let mut pair = up();
    post(&mut pair, 1, Receive, 1, MUCH);
    let Some(Frame::Ready(Ready::Receive { recv, .. })) = pair.ends[1].outbox.back() else {
        panic!("it is announced")
    };
    let early = matched(&[*recv], MUCH, 64);
    for (frames, violation) in [
        (vec![handles(2)], None),
        (vec![handles(2), ready()], None),
        (vec![handles(2), handles(2)], Some(Violation::Handles(2))),
        (vec![handles(1)], Some(Violation::Handles(1))),
        (vec![ready()], Some(unexpected(ready()))),
        (vec![Frame::Ping], None),
        (vec![early.clone()], Some(Violation::MatchChannel(0))),
        (vec![handles(2), ready(), early], Some(Violation::MatchChannel(0))),
    ] {
        let mut pair = up();
        post(&mut pair, 1, Receive, 1, MUCH);
        let mut protocol = pair.ends[1].take_protocol().expect("it is up");
        let what = format!("{frames:?}");
        assert_eq!(hear(&mut protocol, frames), violation.map(Ending::Broken), "{what}");
    }
}
