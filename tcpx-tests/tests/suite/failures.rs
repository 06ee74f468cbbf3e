//! Failures: each must end soon, with an error that names its cause, and must leave the rest alone.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::Signal;
use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Failure, Footprint, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Pair, Side};

use crate::peers_to_run::agent;

/// What a deadline may be late by on a busy machine.
const SLACK_MS: u64 = 15_000;

fn patient() -> Options {
    Options { chunk_bytes: Some(65_536), ..Options::default() }
}

/// For what ends by its deadline.
const HASTE_MS: u64 = 400;

fn hasty_to_close() -> Options {
    Options { close_timeout_ms: Some(HASTE_MS), ..patient() }
}

fn pair() -> Pair {
    Pair::connect(agent(), agent(), patient(), patient())
}

/// The call ended by a deadline of `deadline_ms`.
fn assert_in_time(failure: &Failure, deadline_ms: u64) {
    let window = deadline_ms..deadline_ms + SLACK_MS;
    assert!(window.contains(&failure.after_ms), "{failure:?}");
}

/// A listening peer and the address of its control listener.
fn listening(options: Options) -> (Agent, Vec<u8>, SocketAddr) {
    let mut agent = agent();
    agent.run(Command::New(options));
    let conn_info: Vec<u8> = agent.get(Command::Listen);
    let address = tcpx_tests::control_addresses(&conn_info).into_iter().next().expect("an address");
    (agent, conn_info, address)
}

fn refuse(agent: &mut Agent, command: Command, kind: &str) -> Failure {
    let failure = agent.ask(command).unwrap_err().failure();
    assert_eq!(failure.kind, kind, "{failure:?}");
    failure
}

fn works(pair: &mut Pair) {
    let bytes = 300_000;
    let (left, right) = pair.allocate(bytes, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes, seed: 3 });
    let receive =
        pair.post(Side::Right, false, vec![PostSpec { memory: right, offset: 0, bytes, tag: 1 }]);
    let send =
        pair.post(Side::Left, true, vec![PostSpec { memory: left, offset: 0, bytes, tag: 1 }]);
    pair.wait_both(send, receive);
    let difference: Value =
        pair.right.get(Command::Verify { memory: right, offset: 0, bytes, seed: 3 });
    assert_eq!(difference, Value::Null);
}

#[test]
fn a_peer_that_never_comes_ends_with_the_deadline() {
    let hasty = Options { connect_timeout_ms: Some(HASTE_MS), ..patient() };
    let (mut right, conn_info, _) = listening(hasty.clone());
    let failure = refuse(&mut right, Command::Accept { peer: "left".into() }, "Deadline");
    assert_in_time(&failure, HASTE_MS);
    assert!(failure.text.contains("no session has connected"), "{failure:?}");
    // And one that is there but makes no progress.
    let mut left = agent();
    left.run(Command::New(hasty));
    left.run(Command::Load { peer: "right".into(), conn_info });
    let failure = refuse(&mut left, Command::Connect { peer: "right".into() }, "Deadline");
    assert_in_time(&failure, HASTE_MS);
    assert!(failure.text.contains("its session has not answered"), "{failure:?}");
}

#[test]
fn a_port_without_a_listener_is_named() {
    let (_right, conn_info, _) = listening(patient());
    // A port that is bound, so that no other socket gets it, and not listened on.
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&taken, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = SocketAddr::try_from(getsockname(&taken).expect("an address")).expect("IPv4");
    let conn_info = tcpx_tests::with_address(&conn_info, Ipv4Addr::LOCALHOST, address.port());
    let mut left = agent();
    left.run(Command::New(patient()));
    left.run(Command::Load { peer: "right".into(), conn_info });
    let failure = refuse(&mut left, Command::Connect { peer: "right".into() }, "Unreachable");
    assert!(
        failure.text.contains(&address.to_string()) && failure.text.contains("refused"),
        "{failure:?}"
    );
}

#[test]
fn connection_info_that_is_damaged_never_leaves_the_loader() {
    let (mut left, conn_info, _) = listening(patient());
    let mut refused = |conn_info: &[u8]| {
        let load = Command::Load { peer: "right".into(), conn_info: conn_info.to_vec() };
        refuse(&mut left, load, "ConnInfo").text
    };
    for length in 0..conn_info.len() {
        let text = refused(&conn_info[..length]);
        assert!(text.contains("truncated"), "{length} bytes: {text}");
    }
    for bit in 0..8 * conn_info.len() {
        let mut flipped = conn_info.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let text = refused(&flipped);
        let expected = match bit / 8 {
            0..8 => "not connection info",
            8 | 9 => "format version",
            // The length: too few bytes or too many.
            10 | 11 => "",
            _ => "damaged",
        };
        assert!(text.contains(expected), "bit {bit}: {text}");
    }
    let longer = [&conn_info[..], &[0]].concat();
    assert!(refused(&longer).contains("1 bytes too many"));
    assert!(refused(b"a string of some length").contains("not connection info"));
}

#[test]
fn the_secret_of_another_session_is_refused() {
    // As after a restart of the listening end: another session has taken over the address of the
    // first one.
    let (_first, conn_info, _) = listening(patient());
    let (_second, _, address) = listening(Options { progress_thread: true, ..patient() });
    let SocketAddr::V4(address) = address else { panic!("IPv4") };
    let conn_info = tcpx_tests::with_address(&conn_info, *address.ip(), address.port());
    let mut left = agent();
    left.run(Command::New(patient()));
    left.run(Command::Load { peer: "right".into(), conn_info });
    let failure = refuse(&mut left, Command::Connect { peer: "right".into() }, "Handshake");
    assert!(failure.text.contains("wrong secret"), "{failure:?}");
}

#[test]
fn a_killed_peer_is_noticed_at_once_in_every_phase() {
    for phase in ["receive", "send", "idle"] {
        let mut pair = pair();
        let (left, _) = pair.allocate(100_000_000, Memory::Device);
        let post = vec![PostSpec { memory: left, offset: 0, bytes: 100_000_000, tag: 1 }];
        let transfer = match phase {
            "receive" => pair.post(Side::Left, false, post),
            "send" => pair.post(Side::Left, true, post),
            _ => pair.post(Side::Left, true, Vec::new()),
        };
        if phase == "idle" {
            pair.left.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
        } else {
            pair.left.send_command(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
        }
        pair.right.kill();
        let failure = if phase == "idle" {
            pair.left.first_refusal(&Command::Transfer { peer: "right".into() })
        } else {
            pair.left.receive_reply(2 * PATIENCE).unwrap_err().failure()
        };
        assert_eq!(failure.kind, "PeerGone", "{phase}: {failure:?}");
        for words in ["peer right", "killed"] {
            assert!(failure.text.contains(words), "{phase}: {failure:?}");
        }
        // The memory is free again and the session lives.
        pair.left.run(Command::Deregister { memory: left });
        pair.left.run(Command::Disconnect { peer: "right".into() });
        pair.right = agent();
        pair.right.run(Command::New(patient()));
        pair.join("left", "right").expect("another peer takes the name");
        works(&mut pair);
    }
}

#[test]
fn a_frozen_peer_ends_at_the_callers_deadline_and_is_reported_silent() {
    let mut pair = Pair::connect(agent(), agent(), hasty_to_close(), patient());
    let (left, right) = pair.allocate(200_000_000, Memory::Device);
    let receive = pair.post(
        Side::Right,
        false,
        vec![PostSpec { memory: right, offset: 0, bytes: 200_000_000, tag: 1 }],
    );
    let send = pair.post(
        Side::Left,
        true,
        vec![PostSpec { memory: left, offset: 0, bytes: 200_000_000, tag: 1 }],
    );
    pair.right.signal(Signal::STOP);
    let failure =
        refuse(&mut pair.left, Command::Wait { transfer: send, timeout_ms: 1_500 }, "Deadline");
    assert_in_time(&failure, 1_500);
    assert!(failure.text.contains("nothing was heard of it"), "{failure:?}");
    // Closing does not wait for ever either.
    let failure = refuse(&mut pair.left, Command::Disconnect { peer: "right".into() }, "Deadline");
    assert_in_time(&failure, HASTE_MS);
    pair.right.signal(Signal::CONT);
    pair.right.send_command(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS });
    let failure = pair.right.receive_reply(2 * PATIENCE).unwrap_err().failure();
    assert_eq!(failure.kind, "PeerGone", "{failure:?}");
    // No end is left to wait for.
    pair.left.run(Command::Close);
}

#[test]
fn a_peer_that_ends_does_not_harm_another() {
    let mut pair = pair();
    let mut third = agent();
    third.run(Command::New(patient()));
    let conn_info: Vec<u8> = pair.right.get(Command::Listen);
    third.run(Command::Load { peer: "right".into(), conn_info });
    pair.right.send_command(Command::Accept { peer: "third".into() });
    third.run(Command::Connect { peer: "right".into() });
    pair.right.receive_reply(PATIENCE).unwrap();
    let memory: u64 = third.get(Command::Allocate { bytes: 50_000_000, memory: Memory::Device });
    let transfer: usize = third.get(Command::Transfer { peer: "right".into() });
    third.run(Command::Send {
        transfer,
        posts: vec![PostSpec { memory, offset: 0, bytes: 50_000_000, tag: 0 }],
    });
    third.kill();
    works(&mut pair);
    pair.disconnect();
}

#[test]
fn sessions_come_and_go_without_a_trace() {
    let mut pair = pair();
    let measure = |pair: &mut Pair| -> (Footprint, Footprint) {
        (pair.left.get(Command::Footprint), pair.right.get(Command::Footprint))
    };
    works(&mut pair);
    pair.disconnect();
    let before = measure(&mut pair);
    for _ in 0..10 {
        pair.join("left", "right").expect("a peer may come back");
        works(&mut pair);
        pair.disconnect();
    }
    // Threads that have nothing left to do end by themselves.
    let give_up_at = Instant::now() + PATIENCE;
    let counts = |(left, right): (Footprint, Footprint)| {
        (left.files, left.threads, right.files, right.threads)
    };
    while counts(measure(&mut pair)) != counts(before) && Instant::now() < give_up_at {}
    assert_eq!(counts(measure(&mut pair)), counts(before));
}

#[test]
fn dropping_a_session_in_full_traffic_is_quick_and_clean() {
    let mut pair = Pair::connect(agent(), agent(), hasty_to_close(), patient());
    let bytes = 300_000_000;
    let (left, right) = pair.allocate(bytes, Memory::Device);
    let receive =
        pair.post(Side::Right, false, vec![PostSpec { memory: right, offset: 0, bytes, tag: 1 }]);
    pair.post(Side::Left, true, vec![PostSpec { memory: left, offset: 0, bytes, tag: 1 }]);
    pair.right.send_command(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS });
    let close_ms: u64 = pair.left.get(Command::Close);
    assert!(close_ms < HASTE_MS + SLACK_MS, "{close_ms}");
    // Either all of it was drained before the goodbye, or the peer got an error.
    match pair.right.receive_reply(2 * PATIENCE) {
        Ok(_) => {}
        Err(refusal) => assert_eq!(refusal.failure().kind, "PeerGone"),
    }
}
