//! Tests of words of a parting that come earlier than they may, or twice, and of a goodbye that
//! comes before this end is up.

use super::crossings::{post, up};
use super::exporting::no_exports;
use super::pair::Pair;
use crate::frames::frame::Frame;
use crate::peer::PeerProtocol;
use crate::peer::action::{Action, Ending};
use crate::peer::violation::Violation;
use crate::types::Direction;

/// Returns an end of a pair, without its driver.
fn taken(pair: &mut Pair) -> PeerProtocol {
    pair.ends[0].take_protocol().expect("it has not ended")
}

/// Lets the end hear this from the peer. Returns how that ends the link, if it does.
fn hear(protocol: &mut PeerProtocol, frame: Frame) -> Option<Ending> {
    protocol.handle_frame(frame, &mut no_exports());
    std::iter::from_fn(|| protocol.poll_action()).find_map(|action| match action {
        Action::End { ending, .. } => Some(ending),
        _ => None,
    })
}

/// Checks that `closed` in this state ends the link.
fn assert_closed_breaks(protocol: &mut PeerProtocol, state: &'static str) {
    let violation = Violation::Unexpected { frame: "Closed".into(), state };
    assert_eq!(hear(protocol, Frame::Closed), Some(Ending::Broken(violation)));
}

#[test]
fn closed_without_any_goodbye_is_a_violation() {
    assert_closed_breaks(&mut taken(&mut up()), "up");
}

#[test]
fn closed_before_the_peers_goodbye_is_a_violation() {
    let mut pair = up();
    pair.ends[0].disconnect().unwrap();
    assert_eq!(pair.ends[0].outbox.back(), Some(&Frame::Goodbye));
    assert_closed_breaks(&mut taken(&mut pair), "closing");
}

#[test]
fn closed_before_this_ends_goodbye_is_a_violation() {
    let mut pair = up();
    post(&mut pair, 0, Direction::Receive, 1, 8);
    post(&mut pair, 1, Direction::Send, 1, 8);
    pair.deliver_all().unwrap();
    let mut protocol = taken(&mut pair);
    assert_eq!(hear(&mut protocol, Frame::Goodbye), None);
    assert_eq!(protocol.operation_count(), 1, "what is matched keeps this end from its goodbye");
    assert_closed_breaks(&mut protocol, "closing");
}

#[test]
fn a_link_that_ends_before_the_peer_may_have_left_in_order_is_an_error() {
    let mut pair = up();
    let mut protocol = taken(&mut pair);
    assert!(!protocol.handle_link_closed(), "up");
    protocol.handle_disconnect();
    assert!(!protocol.handle_link_closed(), "without a goodbye");
    assert_eq!(hear(&mut protocol, Frame::Goodbye), None);
    assert!(!protocol.handle_link_closed(), "the sends of this end are open");
}

#[test]
fn a_link_that_ends_instead_of_the_last_word_is_a_parting() {
    let mut pair = up();
    let mut protocol = taken(&mut pair);
    protocol.handle_disconnect();
    assert_eq!(hear(&mut protocol, Frame::Goodbye), None);
    protocol.handle_sends_closed();
    assert!(protocol.handle_link_closed());
    let actions: Vec<Action> = std::iter::from_fn(|| protocol.poll_action()).collect();
    assert!(matches!(actions[..], [Action::Send(Frame::Closed), Action::CloseReceives]));
    assert!(protocol.is_parted());
    assert!(protocol.handle_link_closed(), "it may be seen again, by a write");
    protocol.handle_receives_closed();
    let ending = protocol.poll_action();
    assert!(matches!(ending, Some(Action::End { ending: Ending::Goodbye, .. })), "{ending:?}");
}

/// Settling checks that an end parts, too, if the other has parted on its last word.
#[test]
fn a_parting_whose_link_is_cut_at_any_time_ends() {
    for case in 0..16 * 5 * 2 {
        let (order, frames, both_leave) = (case % 16, case / 16 % 5, case >= 16 * 5);
        let case = format!("order {order:b}, {frames} frames, both leave: {both_leave}");
        let mut pair = up();
        pair.ends[0].disconnect().unwrap();
        if both_leave {
            pair.ends[1].disconnect().unwrap();
        }
        for at in 0..frames {
            pair.deliver(order >> at & 1).unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        pair.cut([0, 0]);
        pair.settle().unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(pair.ends.iter().all(|end| end.over.is_some()), "{case}");
    }
}

#[test]
fn closed_twice_is_a_violation() {
    let mut pair = up();
    pair.ends[0].disconnect().unwrap();
    let mut protocol = taken(&mut pair);
    assert_eq!(hear(&mut protocol, Frame::Goodbye), None);
    assert_eq!(hear(&mut protocol, Frame::Closed), None, "this end still closes its sends");
    assert_closed_breaks(&mut protocol, "closing");
}
