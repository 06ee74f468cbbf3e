//! Tests of rounds of reading.

use super::super::reading::FRAMES_A_ROUND;
use super::*;

/// Begins a round, and reads.
fn begin(link: &mut LinkSocket) -> Result<bool, LinkError> {
    link.begin_round();
    link.read(Instant::now())
}

/// Takes the frames of one round.
fn round(link: &mut LinkSocket) -> Result<usize, LinkError> {
    let outcome = begin(link);
    let mut frames = 0;
    while let Some(frame) = link.next_of_round::<Frame>()? {
        assert_eq!(frame, Frame::Ping);
        frames += 1;
    }
    outcome.map(|_| frames)
}

/// Sends enough frames to fill the largest read.
fn fill_up(left: &mut LinkSocket, right: &mut LinkSocket) {
    let mut to_come = 20 * FRAMES_A_ROUND;
    (0..to_come).for_each(|_| left.queue(&Frame::Ping));
    until("all have come", || {
        left.flush().unwrap();
        right.wake(false);
        to_come -= round(right).unwrap();
        to_come == 0
    });
}

#[test]
fn a_round_is_bounded_and_what_it_leaves_comes_before_the_end_of_the_link() {
    for (mut left, mut right) in pairs() {
        fill_up(&mut left, &mut right);
        // One read takes them all.
        let total = 2 * FRAMES_A_ROUND + 100;
        (0..total).for_each(|_| left.queue(&Frame::Ping));
        let bytes = left.unsent_bytes();
        while left.unsent_bytes() > 0 {
            left.flush().unwrap();
        }
        let mut seen = vec![0; bytes];
        until("all is here", || right.stream.peek(&mut seen).unwrap_or(0) == bytes);
        assert_eq!(round(&mut right), Ok(FRAMES_A_ROUND));
        // The other end closes with a frame unread: the link is reset.
        right.queue(&Frame::Ping);
        right.flush().unwrap();
        until("it is here", || left.stream.peek(&mut [0]).is_ok());
        drop(left);
        until("its end is seen", || {
            right.queue(&Frame::Ping);
            assert!(right.flush().is_ok(), "frames are left");
            right.ended.is_some()
        });
        assert_eq!(round(&mut right), Ok(FRAMES_A_ROUND));
        assert_eq!(right.flush(), Ok(false));
        assert_eq!(round(&mut right), Ok(100));
        assert_eq!(right.flush(), Err(LinkError::Gone(Departure::LinkClosed)));
    }
}

#[test]
fn frames_that_came_with_the_end_of_the_handshake_are_in_the_first_round() {
    let (mut left, mut right) = pair();
    left.queue(&HandshakeFrame::Refuse("busy".into()));
    left.queue(&Frame::Ping);
    let bytes = left.unsent_bytes();
    left.flush().unwrap();
    until("all is here", || right.stream.peek(&mut vec![0; bytes]).unwrap_or(0) == bytes);
    let last = right.receive(Instant::now());
    assert_eq!(last, Ok(Some(HandshakeFrame::Refuse("busy".into()))));
    assert_eq!(begin(&mut right), Ok(true), "no byte comes after them");
    assert_eq!(right.next_of_round(), Ok(Some(Frame::Ping)));
    assert_eq!(right.next_of_round::<Frame>(), Ok(None));
    assert_eq!(begin(&mut right), Ok(false));
}

#[test]
fn a_round_that_leaves_nothing_is_followed_by_one_that_reads() {
    for (mut left, mut right) in pairs() {
        for _ in 0..2 {
            (0..FRAMES_A_ROUND).for_each(|_| left.queue(&Frame::Ping));
            left.flush().unwrap();
            let mut frames = 0;
            until("all have come", || {
                frames += round(&mut right).unwrap();
                frames == FRAMES_A_ROUND
            });
            assert!(!right.has_backlog);
        }
    }
}
