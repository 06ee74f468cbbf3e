//! Events of peers of groups, which go by the names of groups.

use tcpx_core::{Device, OperationKind, PeerState, Session, SessionEvent};
use tcpx_testkit::{PATIENCE, again, until};

use super::groups::{DEVICES, Memories, crosswise, group, notes, pair, prepare};
use super::served::{Served, is_server};

/// The next event of a peer.
fn next_peer(group: &Session) -> (String, PeerState) {
    let mut events = Vec::new();
    until("an event is reported", || group.poll_events(&mut events, 1).expect("no fork") == 1);
    match events.remove(0) {
        SessionEvent::Peer { name, state } => (name, state),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_connects_once_and_leaves_once() {
    let ([left, right], [ours, theirs]) = pair();
    right.report_peers().expect("no fork");
    let write = crosswise();
    let write = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &write);
    let write = write.expect("it fits");
    for round in 0..2 {
        write.report_completions(5).expect("no fork");
        write.post(Some(b"here")).expect("it waits");
        write.wait(Some(PATIENCE)).expect("it succeeds");
        assert_eq!(notes(&right, 1), [b"here"]);
        if round == 1 {
            // Peers that are up now are reported first, and so are ends of posts.
            left.report_peers().expect("no fork");
            assert!(matches!(next_peer(&left), (name, PeerState::Up) if name == "right"));
            let mut events = Vec::new();
            assert_eq!(left.poll_events(&mut events, 9).expect("no fork"), 1);
            let is_it = |event: &SessionEvent| matches!(event, SessionEvent::Completed(it) if it.context == 5 && it.rounds == 2);
            assert!(is_it(&events[0]), "{events:?}");
        }
        assert!(matches!(next_peer(&right), (name, PeerState::Up) if name == "left"));
        left.disconnect("right").expect("all say goodbye");
        assert!(matches!(next_peer(&right), (name, PeerState::Parted) if name == "left"));
        assert_eq!(right.poll_events(&mut Vec::new(), 9).expect("no fork"), 0, "one of each");
    }
    assert_eq!(left.poll_events(&mut Vec::new(), 9).expect("no fork"), 0, "its own doing");
}

/// Also of sessions of devices that were made later.
#[test]
fn a_killed_peer_is_reported() {
    if is_server() {
        return;
    }
    let mut served = Served::new(again!("server"));
    let client = group("another");
    client.report_peers().expect("no fork");
    let ours = Memories::new(&client);
    client.load_remote_conn_info("it", &served.info).expect("its bytes load");
    let read = prepare(&client, "it", OperationKind::Read, (&ours.ids, &served.keys), &crosswise());
    let read = read.expect("it fits");
    read.post(None).expect("it waits");
    read.wait(Some(PATIENCE)).expect("it succeeds");
    assert!(matches!(next_peer(&client), (name, PeerState::Up) if name == "it"));
    served.child.kill().expect("it lives");
    assert!(matches!(next_peer(&client), (name, PeerState::Failed(_)) if name == "it"));
}

/// The host's queue is never empty while they wait.
#[test]
fn notifications_of_every_device_have_their_turn() {
    let ([left, right], [ours, theirs]) = pair();
    let write = crosswise();
    let write = prepare(&left, "right", OperationKind::Write, (&ours.ids, &theirs.keys), &write);
    let write = write.expect("it fits");
    for _ in 0..64 {
        left.notify("right", b"to the host").expect("there is room");
    }
    write.post(Some(b"of an operation")).expect("it waits");
    write.wait(Some(PATIENCE)).expect("it succeeds, and its notification is there");
    until("the host's are there, too", || {
        let sessions = right.stats_by_device();
        let host = sessions.iter().find(|(device, _)| *device == Device::Host);
        host.is_some_and(|(_, host)| host.total.one_sided.notifications_received >= 64)
    });
    let mut taken = Vec::new();
    for _ in DEVICES {
        assert_eq!(right.poll_notifications(&mut taken, 1).expect("no fork"), 1);
    }
    let texts: Vec<_> = taken.iter().map(|note| String::from_utf8_lossy(&note.bytes)).collect();
    assert!(texts.iter().any(|text| text == "of an operation"), "{texts:?}");
}
