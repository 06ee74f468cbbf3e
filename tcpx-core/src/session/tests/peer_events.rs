//! Peers that come up and end, of which a program hears without asking.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_testkit::PATIENCE;

use super::{LOOPBACK, open, patient};
use crate::{Access, Departure, Error, PeerState, Post, Session, SessionEvent};

fn session() -> Session {
    open(patient().channels(1).listen(LOOPBACK).eager_bytes(0))
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).expect("poll") == 1
}

/// What the session tells once its event says that there is something.
fn next_events(of: &Session, sessions: &[&Session]) -> Vec<SessionEvent> {
    let begin = Instant::now();
    let mut events = Vec::new();
    let descriptor = of.completions.event().open().expect("a descriptor");
    while of.poll_events(&mut events, 9).expect("no fork") == 0 {
        while !is_readable(descriptor) {
            assert!(begin.elapsed() < PATIENCE, "nothing is told");
            for session in sessions {
                session.progress();
            }
        }
    }
    events
}

fn next_state(of: &Session, sessions: &[&Session]) -> (String, PeerState) {
    match &next_events(of, sessions)[..] {
        [SessionEvent::Peer { name, state }] => (name.clone(), state.clone()),
        other => panic!("{other:?}"),
    }
}

fn begin_to_meet(left: &Session, right: &Session) {
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    right.start_accept("left").expect("it begins");
    left.start_connect("right").expect("it begins");
}

#[test]
fn a_peer_that_comes_up_and_parts_is_told() {
    let [left, right] = [(); 2].map(|()| session());
    let both = [&left, &right];
    left.report_peers().expect("no fork");
    begin_to_meet(&left, &right);
    let told = next_state(&left, &both);
    assert!(matches!(&told, (name, PeerState::Up) if name == "right"), "{told:?}");
    // Whoever asks late hears of those that are up already.
    while !matches!(right.peer_state("left"), Ok(PeerState::Up)) {
        for session in both {
            session.progress();
        }
    }
    right.report_peers().expect("no fork");
    let told = next_state(&right, &both);
    assert!(matches!(&told, (name, PeerState::Up) if name == "left"), "{told:?}");
    for (session, peer) in [(&left, "right"), (&right, "left")] {
        session.start_disconnect(peer).expect("it is up");
    }
    for (session, peer) in [(&left, "right"), (&right, "left")] {
        let told = next_state(session, &both);
        assert!(matches!(&told, (name, PeerState::Parted) if name == peer), "{told:?}");
    }
    assert_eq!(left.poll_events(&mut Vec::new(), 9).expect("no fork"), 0);
}

#[test]
fn a_peer_that_fails_is_told_beside_what_has_ended_with_it() {
    let [left, right] = [(); 2].map(|()| session());
    begin_to_meet(&left, &right);
    left.report_peers().expect("no fork");
    let both = [&left, &right];
    assert!(matches!(next_state(&left, &both), (_, PeerState::Up)));
    let transfer = left.create_transfer("right").expect("it is up");
    transfer.report_completions(7).expect("no fork");
    let memory = left.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory");
    transfer.post_recv(Post { memory, offset: 0, bytes: 8, tag: 1 }).expect("it fits");
    let (key, _) = right.shared.engine().expect("no fork").peer("left").expect("it is up");
    right.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
    let events = next_events(&left, &both);
    let [
        SessionEvent::Peer { name, state: PeerState::Failed(error) },
        SessionEvent::Completed(completion),
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    let is_abort =
        |error: &Error| matches!(error, Error::PeerGone { how: Departure::Abort(_), .. });
    assert!(name == "right" && is_abort(error), "{error:?}");
    assert!(completion.context == 7 && completion.result.as_ref().is_err_and(is_abort));
}

#[test]
fn an_accept_for_which_nobody_comes_is_told() {
    let session = session();
    session.report_peers().expect("no fork");
    session.listen().expect("listen");
    session.start_accept("nobody").expect("it begins");
    session.shared.progress_at(Instant::now() + 2 * PATIENCE);
    let told = next_state(&session, &[]);
    assert!(matches!(&told.1, PeerState::Failed(Error::Deadline { .. })), "{told:?}");
    assert_eq!(told.0, "nobody");
}
