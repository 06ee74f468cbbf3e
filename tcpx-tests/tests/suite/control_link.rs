//! The control link alone is cut, held or lied to, while data flows or a genuine peer connects; and
//! data sockets alone are cut while the control link lives.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rustix::process::Signal;
use tcpx_testkit::PATIENCE;
use tcpx_tests::Trio;
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_tests::script::{Command, Failure, PATIENCE_MS};
use tcpx_wire::frame;

use crate::peers_to_run::faulty_agent as agent;

/// Deadline of calls that end by it.
const DEADLINE_MS: u64 = 1_500;
/// What a deadline may be late by on a busy machine.
const SLACK_MS: u64 = 15_000;

/// Three sessions; hub and victim will meet through a proxy.
fn acquainted(faults: &str) -> (Trio, LinkProxy) {
    let mut trio = Trio::new(agent(""), agent(faults), agent(""), PATIENCE_MS);
    let conn_info = trio.introduce();
    let proxy = LinkProxy::start(control_address(&conn_info));
    let port = proxy.address().port();
    let conn_info = tcpx_tests::with_address(&conn_info, Ipv4Addr::LOCALHOST, port);
    trio.hub.run(Command::Load { peer: "victim".into(), conn_info });
    (trio, proxy)
}

fn control_address(conn_info: &[u8]) -> SocketAddr {
    tcpx_tests::control_addresses(conn_info)[0]
}

fn assert_gone(failure: &Failure) {
    assert_eq!(failure.kind, "PeerGone", "{failure:?}");
    assert!(failure.text.contains("control link closed"), "{failure:?}");
}

#[test]
fn closed_before_the_hello_and_before_the_welcome() {
    closed_at(&[
        (Direction::ToConnector, kind::CHALLENGE),
        (Direction::ToConnector, kind::WELCOME),
    ]);
}

#[test]
#[ignore = "deep: all frames of the handshake"]
fn closed_in_the_handshake() {
    closed_at(&[
        (Direction::ToConnector, kind::CHALLENGE),
        (Direction::ToListener, kind::HELLO),
        (Direction::ToConnector, kind::WELCOME),
        (Direction::ToConnector, kind::HANDLES),
        (Direction::ToConnector, kind::OPEN),
    ]);
}

fn closed_at(frames: &[(Direction, u16)]) {
    for &(direction, frame) in frames {
        let (mut trio, proxy) = acquainted("");
        proxy.hold(direction, frame);
        trio.begin_to_connect();
        assert!(proxy.wait_until_held(PATIENCE), "the handshake came to frame {frame}");
        proxy.cut();
        let failure = trio.hear_failure();
        // Before the hello it may have been any process at that address: the addresses' own errors
        // are listed.
        let expected = if frame == kind::CHALLENGE { "Unreachable" } else { "PeerGone" };
        assert_eq!(failure.kind, expected, "frame {frame}: {failure:?}");
        trio.victim.kill();
        trio.replace_victim(agent(""));
    }
}

#[test]
fn closed_while_data_flows() {
    // The victim stops in the middle of the data, so that the cut comes before its end.
    for (hub_sends, freeze) in [(true, "freeze:irecv@10"), (false, "freeze:isend@10")] {
        let (mut trio, proxy) = acquainted(freeze);
        trio.connect();
        let expected = trio.expect_from_witness();
        let transfer = trio.post_with_victim(hub_sends);
        trio.hub.send_command(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
        assert!(trio.victim.wait_until_stopped(PATIENCE), "data flows");
        proxy.cut();
        trio.victim.signal(Signal::CONT);
        assert_gone(&trio.hear_failure());
        trio.serve();
        trio.verify(expected);
        // The victim lives and knows as much.
        let failure = trio.victim_failure();
        assert!(failure.text.contains("peer hub"), "{failure:?}");
        trio.replace_victim(agent(""));
    }
}

/// Frames are held and the sockets stay: only a deadline ends the wait. What was lost is not missed
/// when it comes late.
#[test]
fn silent_for_longer_than_the_callers_deadline() {
    let (mut trio, proxy) = acquainted("");
    trio.connect();
    let expected = trio.expect_from_witness();
    proxy.hold(Direction::ToConnector, kind::READY);
    let (transfer, _) = trio.post_send_to_victim();
    assert!(proxy.wait_until_held(PATIENCE), "the victim has posted its receive");
    proxy.swallow();
    trio.hub.send_command(Command::Wait { transfer, timeout_ms: DEADLINE_MS });
    let failure = trio.hear_failure();
    assert_eq!(failure.kind, "Deadline", "{failure:?}");
    assert!((DEADLINE_MS..DEADLINE_MS + SLACK_MS).contains(&failure.after_ms), "{failure:?}");
    assert!(failure.text.contains("nothing was heard of it for"), "{failure:?}");
    trio.serve();
    trio.verify(expected);
    // The frames come after all: the message goes through, and so does the goodbye.
    proxy.release();
    trio.hub.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    trio.victim.send_command(Command::Disconnect { peer: "hub".into() });
    trio.hub.run(Command::Disconnect { peer: "victim".into() });
    trio.victim.receive_reply(PATIENCE).expect("goodbye");
}

#[test]
fn closed_in_the_goodbye() {
    let (mut trio, proxy) = acquainted("");
    trio.connect();
    proxy.hold(Direction::ToConnector, kind::GOODBYE);
    trio.hub.send_command(Command::Disconnect { peer: "victim".into() });
    // It is an answer, so the hub has sent its own.
    assert!(proxy.wait_until_held(PATIENCE), "the victim has sent its goodbye");
    proxy.cut();
    let failure = trio.hear_failure();
    assert_gone(&failure);
    assert!(failure.text.contains("during close"), "{failure:?}");
    assert_eq!(trio.victim_failure().kind, "PeerGone");
    trio.replace_victim(agent(""));
}

/// The victim has left in order. Its last word is lost, as where its system resets the link because
/// a ping of the hub came too late.
#[test]
fn closed_instead_of_the_last_word() {
    let (mut trio, proxy) = acquainted("");
    trio.connect();
    proxy.hold(Direction::ToConnector, kind::CLOSED);
    trio.hub.send_command(Command::Disconnect { peer: "victim".into() });
    assert!(proxy.wait_until_held(PATIENCE), "the victim has closed its sends");
    assert!(proxy.wait_until_passed(Direction::ToListener, kind::CLOSED, PATIENCE));
    proxy.cut();
    trio.hub.receive_reply(PATIENCE).expect("nothing that the program sent or received is lost");
}

/// Any socket of a comm may end alone, at either end.
#[test]
fn a_data_socket_is_cut_while_the_control_link_lives() {
    data_sockets_cut(&["cut:send.data0@700000", "kill:recv@1"]);
}

#[test]
#[ignore = "deep: all sockets"]
fn data_sockets_cut_while_the_control_link_lives() {
    data_sockets_cut(&[
        "cut:send.data0@700000",
        "cut:send.control@300",
        "cut:recv.data0@700000",
        "cut:recv.control@300",
        "kill:send@1",
        "kill:recv@1",
    ]);
}

fn data_sockets_cut(faults: &[&str]) {
    for fault in faults {
        let mut trio = Trio::new(agent(""), agent(fault), agent(""), PATIENCE_MS);
        let expected = trio.expect_from_witness();
        trio.introduce();
        trio.connect();
        let transfer = trio.post_with_victim(fault.contains("recv"));
        trio.hub.send_command(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
        let failure = trio.hear_failure();
        match failure.kind.as_str() {
            "Plugin" => assert!(failure.text.contains("channel 0"), "{fault}: {failure:?}"),
            // The victim saw it first, and said why it gave up.
            "PeerGone" => assert!(
                failure.text.contains("aborted") && failure.text.contains("plugin call"),
                "{fault}: {failure:?}"
            ),
            _ => panic!("{fault}: {failure:?}"),
        }
        trio.serve();
        trio.verify(expected);
        trio.victim.kill();
        trio.replace_victim(agent(""));
    }
}

/// Returns the bytes that a stray connection reads until it is closed, or nothing more comes.
fn received_until_closed(mut stray: TcpStream) -> Vec<u8> {
    stray.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let mut bytes = Vec::new();
    match stray.read_to_end(&mut bytes) {
        Ok(_) => {}
        // Closed with bytes of its own unread.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    bytes
}

fn dial(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the control listener is there");
    stream.write_all(bytes).expect("a fresh connection takes a few bytes");
    stream
}

#[test]
fn a_hello_that_is_replayed_or_thrown_back_proves_nothing() {
    let (mut trio, proxy) = acquainted("");
    trio.connect();
    let address = control_address(&trio.victim.get::<Vec<u8>>(Command::Listen));
    let [hello] = &proxy.passed(Direction::ToListener, kind::HELLO)[..] else {
        panic!("one hello")
    };
    let [welcome] = &proxy.passed(Direction::ToConnector, kind::WELCOME)[..] else {
        panic!("one welcome")
    };
    // A hello ends with a voucher, which a welcome has not.
    let body = [&welcome[frame::HEADER_BYTES..], &[0; 32]].concat();
    let mut reflected = Vec::new();
    frame::append(&mut reflected, kind::HELLO, |out| out.extend_from_slice(&body));
    for bytes in [hello, &reflected] {
        let answer = received_until_closed(dial(address, bytes));
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("wrong secret"), "{text:?}");
        assert!(!has_frame(&answer, kind::WELCOME), "{text:?}");
    }
    // A genuine peer of that name is still there and works.
    trio.exchange_with_victim();
}

/// Whether a frame of this type is among the bytes.
fn has_frame(mut bytes: &[u8], kind: u16) -> bool {
    while let Ok(Some(split)) = frame::split(bytes, usize::MAX) {
        if split.kind == kind {
            return true;
        }
        bytes = &bytes[split.taken..];
    }
    false
}

#[test]
fn unauthenticated_connections_do_not_keep_a_peer_out() {
    let mut trio = Trio::new(agent(""), agent(""), agent(""), PATIENCE_MS);
    let address = control_address(&trio.introduce());
    let oversized = [0xff, 0xff, 0xff, 0x7f, 2, 0, 0, 0];
    let unknown = [0, 0, 0, 0, 0xff, 0xff, 0, 0];
    let garbage: Vec<u8> =
        (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let closed: Vec<TcpStream> =
        [&b"GET / HTTP/1.0\r\n\r\n"[..], b"SSH-2.0-scanner\r\n", &oversized, &unknown, &garbage]
            .map(|bytes| dial(address, bytes))
            .into();
    // Scanners that only look, and connections that are half open: silent, or in the middle of a
    // header or a body.
    for _ in 0..20 {
        drop(dial(address, b""));
    }
    let silent: Vec<TcpStream> =
        [&b""[..], &[1], &[16, 0, 0, 0, 2, 0, 0], &[16, 0, 0, 0, 2, 0, 0, 0, 7]]
            .iter()
            .cycle()
            .take(40)
            .map(|bytes| dial(address, bytes))
            .collect();
    trio.connect();
    trio.exchange_with_victim();
    for stray in closed {
        // The greeting, and no more than a frame or two: nothing of it is worth much memory.
        assert!(received_until_closed(stray).len() < 1024);
    }
    drop(silent);
    trio.exchange_with_victim();
}
