//! What ends badly must end soon, with an error that names its cause, and must leave the rest alone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tcpx_tests::script::{Command, Failure, Footprint, Memory, Options, PostSpec};
use tcpx_tests::{Agent, Pair, Side};

const SHORT: Duration = Duration::from_secs(10);

fn agent() -> Agent {
    Agent::start(env!("CARGO_BIN_EXE_tcpx-peer"))
}

fn quick() -> Options {
    Options {
        chunk_bytes: Some(65_536),
        connect_timeout_ms: Some(1_500),
        close_timeout_ms: Some(1_000),
        ..Options::default()
    }
}

fn pair() -> Pair {
    Pair::connect(agent(), agent(), quick(), quick())
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
    let (mut right, conn_info, _) = listening(quick());
    let failure = refuse(&mut right, Command::Accept { peer: "left".into() }, "Deadline");
    assert!((1_500..2_500).contains(&failure.after_ms), "{failure:?}");
    assert!(failure.text.contains("no session has connected"), "{failure:?}");
    // And one that is there but makes no progress.
    let mut left = agent();
    left.run(Command::New(quick()));
    left.run(Command::Load { peer: "right".into(), conn_info });
    let failure = refuse(&mut left, Command::Connect { peer: "right".into() }, "Deadline");
    assert!((1_500..2_500).contains(&failure.after_ms), "{failure:?}");
    assert!(failure.text.contains("its session has not answered"), "{failure:?}");
}

#[test]
fn a_port_that_nobody_listens_on_is_named() {
    let (right, conn_info, address) = listening(quick());
    drop(right);
    let mut left = agent();
    left.run(Command::New(quick()));
    left.run(Command::Load { peer: "right".into(), conn_info });
    let failure = refuse(&mut left, Command::Connect { peer: "right".into() }, "Io");
    assert!(
        failure.text.contains(&address.to_string()) && failure.text.contains("refused"),
        "{failure:?}"
    );
}

#[test]
fn connection_info_that_is_damaged_never_leaves_the_loader() {
    let mut left = agent();
    left.run(Command::New(quick()));
    let (_right, conn_info, _) = listening(quick());
    let load =
        |conn_info: &[u8]| Command::Load { peer: "right".into(), conn_info: conn_info.to_vec() };
    let mut flipped = conn_info.clone();
    flipped[20] ^= 1;
    let mut newer = conn_info.clone();
    newer[8] = 9;
    for (bytes, words) in [
        (&conn_info[..conn_info.len() - 1], "truncated"),
        (&flipped[..], "damaged"),
        (&newer[..], "format version 9"),
        (&b"hello"[..], "truncated"),
        (&b"a string of some length"[..], "not connection info"),
    ] {
        let failure = refuse(&mut left, load(bytes), "ConnInfo");
        assert!(failure.text.contains(words), "{failure:?}");
    }
}

#[test]
fn strangers_on_the_control_port_do_not_disturb() {
    let (right, conn_info, address) = listening(Options { progress_thread: true, ..quick() });
    let dial = || TcpStream::connect(address).expect("the control listener is there");
    let mut scanner = dial();
    scanner.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut oversized = dial();
    oversized.write_all(&[0xff, 0xff, 0xff, 0x7f, 2, 0, 0, 0]).unwrap();
    let _silent = dial();
    drop(dial());
    for mut stream in [scanner, oversized] {
        stream.set_read_timeout(Some(SHORT)).unwrap();
        let mut answer = Vec::new();
        // The greeting, then the end: the stranger was thrown out. A reset says the same.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 200);
    }
    let mut left = agent();
    left.run(Command::New(quick()));
    let mut pair = Pair { left, right };
    pair.left.run(Command::Load { peer: "right".into(), conn_info });
    pair.right.tell(Command::Accept { peer: "left".into() });
    pair.left.tell(Command::Connect { peer: "right".into() });
    assert!(pair.left.hear(SHORT).is_ok() && pair.right.hear(SHORT).is_ok());
    works(&mut pair);
    pair.part();
}

#[test]
fn the_secret_of_another_session_is_refused() {
    // Two sessions on one host: the second one takes over the first one's port, as after a restart.
    let (first, conn_info, address) = listening(quick());
    drop(first);
    let imposter = TcpListener::bind(address).expect("the port is free again");
    let mut left = agent();
    left.run(Command::New(quick()));
    left.run(Command::Load { peer: "right".into(), conn_info });
    left.tell(Command::Connect { peer: "right".into() });
    // The imposter repeats the opening words of a real session, then ends.
    let (mut stream, _) = imposter.accept().unwrap();
    let (_real, _, real_address) = listening(Options { progress_thread: true, ..quick() });
    let mut real = TcpStream::connect(real_address).unwrap();
    let mut relay_from = real.try_clone().unwrap();
    let mut relay_to = stream.try_clone().unwrap();
    let relay = std::thread::spawn(move || std::io::copy(&mut relay_from, &mut relay_to));
    let mut hello = [0; 512];
    let bytes = stream.read(&mut hello).unwrap();
    real.write_all(&hello[..bytes]).unwrap();
    let failure = left.hear(SHORT).unwrap_err().failure();
    assert_eq!(failure.kind, "Handshake");
    assert!(failure.text.contains("wrong secret"), "{failure:?}");
    drop((stream, real));
    let _ = relay.join();
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
            pair.left.run(Command::Wait { transfer, timeout_ms: 1_000 });
        } else {
            pair.left.tell(Command::Wait { transfer, timeout_ms: 30_000 });
        }
        let start = Instant::now();
        pair.right.kill();
        if phase == "idle" {
            pair.left.run(Command::Progress { time_ms: 100 });
            let failure =
                refuse(&mut pair.left, Command::Transfer { peer: "right".into() }, "PeerGone");
            assert!(failure.text.contains("killed"), "{failure:?}");
        } else {
            let failure = pair.left.hear(SHORT).unwrap_err().failure();
            assert_eq!(failure.kind, "PeerGone", "{phase}");
            assert!(
                failure.text.contains("peer right") && failure.text.contains("killed"),
                "{failure:?}"
            );
            assert!(start.elapsed() < Duration::from_secs(2), "{phase}: {:?}", start.elapsed());
        }
        // The memory is free again and the session lives.
        pair.left.run(Command::Deregister { memory: left });
        pair.left.run(Command::Disconnect { peer: "right".into() });
        pair.right = agent();
        pair.right.run(Command::New(quick()));
        pair.join("left", "right").expect("another peer takes the name");
        works(&mut pair);
    }
}

#[test]
fn a_frozen_peer_ends_with_the_callers_deadline_and_is_said_to_be_silent() {
    let mut pair = pair();
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
        refuse(&mut pair.left, Command::Wait { transfer: send, timeout_ms: 2_500 }, "Deadline");
    assert!((2_500..3_500).contains(&failure.after_ms), "{failure:?}");
    assert!(failure.text.contains("nothing was heard of it"), "{failure:?}");
    // Closing does not wait for ever either.
    let failure = refuse(&mut pair.left, Command::Disconnect { peer: "right".into() }, "Deadline");
    assert!(failure.after_ms < 2_000, "{failure:?}");
    pair.right.signal(Signal::CONT);
    pair.right.tell(Command::Wait { transfer: receive, timeout_ms: 5_000 });
    let failure = pair.right.hear(SHORT).unwrap_err().failure();
    assert_eq!(failure.kind, "PeerGone", "{failure:?}");
    let close_ms: u64 = pair.left.get(Command::Close);
    assert!(close_ms < 2_000, "{close_ms}");
}

#[test]
fn a_peer_that_ends_does_not_harm_another() {
    let mut pair = pair();
    let mut third = agent();
    third.run(Command::New(quick()));
    let conn_info: Vec<u8> = pair.right.get(Command::Listen);
    third.run(Command::Load { peer: "right".into(), conn_info });
    pair.right.tell(Command::Accept { peer: "third".into() });
    third.run(Command::Connect { peer: "right".into() });
    pair.right.hear(SHORT).unwrap();
    let memory: u64 = third.get(Command::Allocate { bytes: 50_000_000, memory: Memory::Device });
    let transfer: usize = third.get(Command::Transfer { peer: "right".into() });
    third.run(Command::Send {
        transfer,
        posts: vec![PostSpec { memory, offset: 0, bytes: 50_000_000, tag: 0 }],
    });
    third.kill();
    works(&mut pair);
    pair.part();
}

#[test]
fn sessions_come_and_go_without_a_trace() {
    let mut pair = pair();
    let measure = |pair: &mut Pair| -> (Footprint, Footprint) {
        (pair.left.get(Command::Footprint), pair.right.get(Command::Footprint))
    };
    works(&mut pair);
    pair.part();
    let before = measure(&mut pair);
    for _ in 0..10 {
        pair.join("left", "right").expect("a peer may come back");
        works(&mut pair);
        pair.part();
    }
    // Threads that have nothing left to do end by themselves.
    let give_up_at = Instant::now() + SHORT;
    let counts = |(left, right): (Footprint, Footprint)| {
        (left.files, left.threads, right.files, right.threads)
    };
    while counts(measure(&mut pair)) != counts(before) && Instant::now() < give_up_at {}
    assert_eq!(counts(measure(&mut pair)), counts(before));
}

#[test]
fn dropping_a_session_in_full_traffic_is_quick_and_clean() {
    let mut pair = pair();
    let bytes = 300_000_000;
    let (left, right) = pair.allocate(bytes, Memory::Device);
    let receive =
        pair.post(Side::Right, false, vec![PostSpec { memory: right, offset: 0, bytes, tag: 1 }]);
    pair.post(Side::Left, true, vec![PostSpec { memory: left, offset: 0, bytes, tag: 1 }]);
    pair.right.tell(Command::Wait { transfer: receive, timeout_ms: 20_000 });
    let close_ms: u64 = pair.left.get(Command::Close);
    assert!(close_ms < 3_000, "{close_ms}");
    // Either all of it was drained before the goodbye, or the peer was told.
    match pair.right.hear(SHORT) {
        Ok(_) => {}
        Err(refusal) => assert_eq!(refusal.failure().kind, "PeerGone"),
    }
}
