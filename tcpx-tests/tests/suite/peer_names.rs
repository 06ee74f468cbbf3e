//! Names of peers that have connected by themselves, and how they are found and forgotten.

use std::time::Instant;

use tcpx_core::{
    Device, Error, ExportOptions, MemoryRange, OperationKind, PeerState, RemoteAccess, RemoteRange,
    Session, SessionEvent,
};
use tcpx_testkit::{PATIENCE, until};
use tcpx_tests::sessions::{drop_all, lively, notifications, open, soft};

fn until_up(state: impl Fn() -> Result<PeerState, Error>) {
    until("a peer is up", || matches!(state(), Ok(PeerState::Up)));
}

/// A peer that has connected, and was accepted without being asked for, is the one that a connect
/// with its connection info means. This holds also where that info was loaded later.
#[test]
fn a_connect_finds_who_has_come_by_itself() {
    for knows_before in [true, false] {
        let [left, right] =
            ["left", "right"].map(|name| open(lively().accept_all(true).name(name)));
        let (left_info, right_info) = (left.listen().expect("it"), right.listen().expect("it"));
        if knows_before {
            right.load_remote_conn_info("left", &left_info).expect("own bytes load");
        }
        left.load_remote_conn_info("right", &right_info).expect("own bytes load");
        left.connect("right").expect("it is there");
        until_up(|| right.peer_state("left"));
        if !knows_before {
            right.load_remote_conn_info("left", &left_info).expect("own bytes load");
        }
        right.connect("left").expect("it is here");
        right.connect("left").expect("again");
        assert_eq!((left.stats().peers.len(), right.stats().peers.len()), (1, 1));
        right.notify("left", b"1").expect("it is up");
        assert_eq!(notifications(&left, 1)[0].peer, "right");
    }
}

/// A name under which connection info was loaded belongs to that session, whichever peer claims it
/// first.
#[test]
fn claiming_a_name_does_not_own_it() {
    for accept_all in [false, true] {
        let server = open(lively().accept_all(accept_all));
        let [pretender, nameless, worker] =
            ["prefill-3", "", "prefill-3"].map(|name| open(lively().name(name)));
        let worker_info = worker.listen().expect("it listens");
        server.load_remote_conn_info("prefill-3", &worker_info).expect("own bytes load");
        let info = server.listen().expect("it listens");
        if !accept_all {
            server.start_accept("prefill-3").expect("it listens");
        }
        for session in [&pretender, &nameless, &worker] {
            session.load_remote_conn_info("server", &info).expect("own bytes load");
            session.connect("server").expect("it is there");
        }
        until_up(|| server.peer_state("prefill-3"));
        server.notify("prefill-3", b"1").expect("it is up");
        assert_eq!(notifications(&worker, 1)[0].bytes, b"1");
        for other in [&pretender, &nameless] {
            assert_eq!(other.poll_notifications(&mut Vec::new(), 1).expect("no fork"), 0);
        }
        if accept_all {
            let names = server.stats().peers.into_iter().map(|peer| peer.name);
            assert_eq!(names.collect::<Vec<_>>(), ["peer-1", "peer-2", "prefill-3"]);
        }
        // A peer without a name gets no answer to its goodbye before the server goes.
        drop_all([server, pretender, nameless, worker]);
    }
}

/// One peer is one peer, whatever it is called.
#[test]
fn a_connect_under_another_name_finds_who_has_come_by_itself() {
    let [left, right] = ["left", "right"].map(|name| open(lively().accept_all(true).name(name)));
    let left_info = left.listen().expect("it listens");
    left.load_remote_conn_info("right", &right.listen().expect("it")).expect("own bytes load");
    left.connect("right").expect("it is there");
    until_up(|| right.peer_state("left"));
    right.load_remote_conn_info("friend", &left_info).expect("own bytes load");
    right.connect("friend").expect("it is here");
    right.connect("friend").expect("again");
    for name in ["friend", "left"] {
        assert!(matches!(right.peer_state(name), Ok(PeerState::Up)));
        right.notify(name, b"1").expect("it is up");
        assert_eq!(notifications(&left, 1)[0].peer, "right");
    }
    left.notify("right", b"2").expect("it is up");
    assert_eq!(notifications(&right, 1)[0].peer, "left", "the name that it has had first");
    assert_eq!((left.stats().peers.len(), right.stats().peers.len()), (1, 1));
    // Both names are free when it has gone.
    right.disconnect("friend").expect("left answers");
    for name in ["friend", "left"] {
        let unknown = right.peer_state(name).expect_err("it is gone");
        assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
    }
    right.notify("friend", b"3").expect("it is reached");
    assert_eq!(notifications(&left, 1)[0].bytes, b"3");
    assert_eq!(right.stats().peers.len(), 1);
    // A program that asks for a second connection gets one.
    right.load_remote_conn_info("second", &left_info).expect("own bytes load");
    right.connect("second").expect("it is there");
    assert_eq!(right.stats().peers.len(), 2);
}

fn connections(group: &Session) -> usize {
    group.stats_by_device().iter().map(|(_, session)| session.peers.len()).sum()
}

/// Writes some bytes from a device to one of a peer, with a notification.
fn write_between(from: (&Session, Device), to: (&Session, Device), peer: &str) {
    let [here, there] =
        [from, to].map(|(group, device)| group.allocate(5000, device).expect("memory"));
    let key = to.0.export(there, ExportOptions::new(RemoteAccess::Write)).expect("it is there");
    let local = [MemoryRange { memory: here, offset: 0, bytes: 5000 }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: 5000 }];
    let write = from.0.prepare(peer, OperationKind::Write, &local, &remote).expect("it is known");
    write.post(Some(b"written")).expect("it is not under way");
    write.wait(Some(PATIENCE)).expect("it succeeds");
}

fn hear_from(group: &Session) -> String {
    let mut received = Vec::new();
    group.wait_notifications(&mut received, 1, Some(PATIENCE)).expect("one comes");
    received.remove(0).peer
}

/// The same of groups, whichever devices have met before.
#[test]
fn groups_find_each_other_under_another_name() {
    let [host, gpu] = [Device::Host, Device::Gpu(0)];
    let options = soft().emulated_gpus(1);
    let [left, right] = ["left", "right"]
        .map(|name| Session::new(options.clone().name(name).all_devices(true)).expect("soft"));
    let left_info = left.listen().expect("it listens");
    left.load_remote_conn_info("right", &right.listen().expect("it")).expect("own bytes load");
    right.report_peers().expect("no fork");
    write_between((&left, gpu), (&right, gpu), "right");
    assert_eq!(hear_from(&right), "left");
    // It is here as "left", and has these names, too.
    for name in ["friend", "third"] {
        right.load_remote_conn_info(name, &left_info).expect("own bytes load");
        right.connect(name).expect("it is there");
        write_between((&right, gpu), (&left, gpu), name);
        write_between((&right, host), (&left, host), "left");
        assert_eq!([hear_from(&left), hear_from(&left)], ["right", "right"]);
        assert!(matches!(right.peer_state(name), Ok(PeerState::Up)));
    }
    write_between((&left, host), (&right, gpu), "right");
    assert_eq!(hear_from(&right), "left", "also of devices that meet later");
    assert_eq!((connections(&left), connections(&right)), (3, 3));
    right.disconnect("third").expect("left answers");
    assert_eq!(connections(&right), 0);
    let mut events = Vec::new();
    right.poll_events(&mut events, 9).expect("no fork");
    let is_it = matches!(&events[..], [SessionEvent::Peer { name, state: PeerState::Up }] if name == "left");
    assert!(is_it, "{events:?}");
}

#[test]
fn a_way_is_forgotten_and_a_connection_stays() {
    let [left, right] = ["left", "right"].map(|name| open(lively().accept_all(true).name(name)));
    let right_info = right.listen().expect("it listens");
    let unknown = left.forget_remote_conn_info("right").expect_err("nothing was loaded");
    assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
    left.load_remote_conn_info("right", &right_info).expect("own bytes load");
    left.connect("right").expect("it is there");
    left.forget_remote_conn_info("right").expect("it was loaded");
    left.notify("right", b"1").expect("it is up");
    assert_eq!(notifications(&right, 1)[0].bytes, b"1");
    left.disconnect("right").expect("it answers");
    let unknown = left.notify("right", b"2").expect_err("no such peer");
    assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
    // One that has gone, and why.
    left.load_remote_conn_info("right", &right_info).expect("own bytes load");
    left.connect("right").expect("it is there");
    right.close().expect("left answers");
    let give_up_at = Instant::now() + PATIENCE;
    while !matches!(left.peer_state("right"), Ok(PeerState::Parted)) {
        assert!(Instant::now() < give_up_at, "it does not part");
        std::thread::yield_now();
    }
    left.forget_remote_conn_info("right").expect("it was loaded");
    let unknown = left.peer_state("right").expect_err("it is forgotten");
    assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
    assert!(left.stats().peers.is_empty());
}

/// A group whose peers come and go forgets them.
#[test]
fn a_group_forgets_all_devices_of_a_peer() {
    let [host, gpu] = [Device::Host, Device::Gpu(0)];
    let options = soft().emulated_gpus(1);
    let make = |name| Session::new(options.clone().name(name).all_devices(true)).expect("soft");
    let left = make("left");
    for round in 0..3 {
        let right = make("right");
        let right_info = right.listen().expect("it listens");
        for name in ["right", "other"] {
            left.load_remote_conn_info(name, &right_info).expect("own bytes load");
        }
        for (here, there) in [(host, gpu), (gpu, host), (gpu, gpu)] {
            write_between((&left, here), (&right, there), "other");
        }
        assert_eq!(connections(&left), 3, "{round}");
        left.disconnect("other").expect("it answers");
        left.forget_remote_conn_info("other").expect("it was loaded");
        for name in ["right", "other"] {
            let unknown = left.forget_remote_conn_info(name).expect_err("it has no name left");
            assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
            let unknown = left.notify(name, b"1").expect_err("no such peer");
            assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
            let unknown = left.connect(name).expect_err("no such peer");
            assert!(matches!(unknown, Error::UnknownPeer { .. }), "{unknown}");
        }
    }
}

/// A connection that stays when its name is forgotten is found again under the next one.
#[test]
fn a_group_that_was_forgotten_and_stays_is_found_under_another_name() {
    let [host, gpu] = [Device::Host, Device::Gpu(0)];
    let options = soft().emulated_gpus(1);
    let [left, right] = ["left", "right"]
        .map(|name| Session::new(options.clone().name(name).all_devices(true)).expect("soft"));
    let right_info = right.listen().expect("it listens");
    for round in 0..4 {
        let name = format!("right#{round}");
        left.load_remote_conn_info(&name, &right_info).expect("own bytes load");
        write_between((&left, host), (&right, host), &name);
        write_between((&left, gpu), (&right, gpu), &name);
        assert_eq!(connections(&left), 2, "{round}");
        left.forget_remote_conn_info(&name).expect("it was loaded");
    }
    assert_eq!(connections(&right), 2);
}

/// Of peers that no name leads to any more, only the last ones that have ended are remembered.
#[test]
fn a_group_drops_peers_that_no_call_names() {
    const MOST: usize = 64;
    let make = |name| Session::new(soft().name(name).all_devices(true));
    let host = make("host").expect("soft");
    let host_info = host.listen().expect("it listens");
    for round in 0..MOST + 8 {
        let guest = make("guest").expect("soft");
        if round % 2 == 0 {
            guest.load_remote_conn_info("host", &host_info).expect("own bytes load");
            guest.notify("host", b"1").expect("it is reached");
            hear_from(&host);
        } else {
            let guest_info = guest.listen().expect("it listens");
            let name = format!("guest#{round}");
            host.load_remote_conn_info(&name, &guest_info).expect("own bytes load");
            host.notify(&name, b"1").expect("it is reached");
            hear_from(&guest);
            host.forget_remote_conn_info(&name).expect("it was loaded");
        }
        guest.close().expect("the host answers");
    }
    until("the first ones are forgotten", || connections(&host) <= MOST);
}

/// A name of a peer that has gone is free.
#[test]
fn a_group_that_comes_back_has_the_name_that_was_loaded_meanwhile() {
    let options = soft();
    let [left, right] = ["left", "right"]
        .map(|name| Session::new(options.clone().name(name).all_devices(true)).expect("soft"));
    left.load_remote_conn_info("right", &right.listen().expect("it")).expect("own bytes load");
    left.notify("right", b"1").expect("it is reached");
    assert_eq!(hear_from(&right), "left");
    right.report_peers().expect("no fork");
    left.disconnect("right").expect("it answers");
    let parted = || {
        let mut events = Vec::new();
        right.poll_events(&mut events, 9).expect("no fork");
        let is_end = |it: &_| matches!(it, SessionEvent::Peer { state: PeerState::Parted, .. });
        if events.iter().any(is_end) { Ok(PeerState::Up) } else { Ok(PeerState::Leaving) }
    };
    until_up(parted);
    let left_info = left.listen().expect("it listens");
    right.load_remote_conn_info("friend", &left_info).expect("own bytes load");
    left.notify("right", b"2").expect("it is reached");
    assert_eq!(hear_from(&right), "friend");
}

/// The same of groups: the hosts, and each pair of devices.
#[test]
fn groups_find_who_has_come_by_itself() {
    for knows_before in [true, false] {
        let options = soft().emulated_gpus(1);
        let make = |name| Session::new(options.clone().name(name).all_devices(true)).expect("soft");
        let [left, right] = ["left", "right"].map(make);
        let (left_info, right_info) = (left.listen().expect("it"), right.listen().expect("it"));
        if knows_before {
            right.load_remote_conn_info("left", &left_info).expect("own bytes load");
        }
        left.load_remote_conn_info("right", &right_info).expect("own bytes load");
        let write = |from: &Session, to: &Session, peer: &str| {
            let [here, there] =
                [from, to].map(|group| group.allocate(5000, Device::Gpu(0)).expect("memory"));
            let key = to.export(there, ExportOptions::new(RemoteAccess::Write)).expect("it is");
            let local = [MemoryRange { memory: here, offset: 0, bytes: 5000 }];
            let remote = [RemoteRange { key: &key, offset: 0, bytes: 5000 }];
            let write = from.prepare(peer, OperationKind::Write, &local, &remote).expect("known");
            write.post(None).expect("it is not under way");
            write.wait(Some(PATIENCE)).expect("it succeeds");
        };
        left.connect("right").expect("it is there");
        write(&left, &right, "right");
        until_up(|| right.peer_state("left"));
        if !knows_before {
            right.load_remote_conn_info("left", &left_info).expect("own bytes load");
        }
        right.connect("left").expect("it is here");
        write(&right, &left, "left");
        for group in [&left, &right] {
            let connections =
                group.stats_by_device().iter().map(|(_, it)| it.peers.len()).sum::<usize>();
            assert_eq!(connections, 2, "of the hosts, and of the GPUs");
        }
    }
}
