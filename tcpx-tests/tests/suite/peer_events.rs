//! A peer's process that is killed, and the next one of its name, reported as events.

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tcpx_core::{Departure, Error, PeerState, Session, SessionEvent};
use tcpx_testkit::PATIENCE;
use tcpx_tests::Agent;
use tcpx_tests::script::{Command, Options};
use tcpx_tests::sessions::{lively, open};

use crate::peers_to_run;

fn peer(conn_info: &[u8]) -> Agent {
    let mut agent = peers_to_run::agent_with(&[("TCPX_PEER_LOOPBACK", "1")]);
    agent.run(Command::New(Options { progress_thread: true, ..Options::default() }));
    agent.run(Command::Load { peer: "here".into(), conn_info: conn_info.to_vec() });
    agent.send_command(Command::Connect { peer: "here".into() });
    agent
}

/// The next event, which the descriptor announces.
fn next_state(session: &Session) -> PeerState {
    let descriptor = session.event_fd().expect("a descriptor");
    let (mut events, begin) = (Vec::new(), Instant::now());
    while session.poll_events(&mut events, 1).expect("no fork") == 0 {
        assert!(begin.elapsed() < PATIENCE, "no event in time");
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).expect("poll");
    }
    match events.remove(0) {
        SessionEvent::Peer { name, state } if name == "there" => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_killed_peer_and_the_next_of_its_name_are_reported() {
    let session = open(lively());
    session.report_peers().expect("no fork");
    let conn_info = session.listen().expect("listen");
    for _ in 0..2 {
        session.start_accept("there").expect("the name is free");
        let mut peer = peer(&conn_info);
        assert!(matches!(next_state(&session), PeerState::Up));
        peer.receive_reply(PATIENCE).expect("it is connected");
        peer.signal(Signal::KILL);
        let state = next_state(&session);
        let PeerState::Failed(Error::PeerGone { how, .. }) = state else { panic!("{state:?}") };
        let is_killed = matches!(how, Departure::LinkClosed | Departure::LinkFailed { .. });
        assert!(is_killed, "{how:?}");
    }
}
