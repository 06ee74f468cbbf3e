//! Tests of a server and its connections: its client, unauthenticated ones, clients with another
//! token, and those that come while it is busy.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tcpx_testkit::report_skip;

use crate::tcpx::timeout::with_timeout;
use crate::tcpx::{self, Finished, Server, Signal, Tcpx, has_ipv6};

const TOKEN: &str = "correct-horse-battery";

fn client(server: &Server, words: &[&str]) -> Finished {
    server.client(&[&["connect"], words].concat()).run()
}

fn client_of(address: &str, words: &[&str]) -> Finished {
    tcpx::client(address, &[&["connect"], words].concat()).run()
}

#[test]
fn garbage_on_the_bootstrap_port_ends_nothing() {
    // Frames of length, kind and body. A greeting is of kind 0, an abort of kind 1, a request of 2.
    let greeting = [&[24, 0, 0, 0, 0, 0, 0, 0, 12, 5][..], b"0.1.0", &[7; 16], &[0]].concat();
    let after_greeting = |bytes: &[u8]| [&greeting, bytes].concat();
    let huge = after_greeting(&[0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]);
    let nonsense = after_greeting(&[3, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff]);
    let out_of_turn = after_greeting(&[0, 0, 0, 0, 5, 0, 0, 0]);
    let gives_up = after_greeting(&[4, 0, 0, 0, 1, 0, 0, 0, 3, b'w', b'h', b'y']);
    let server = Server::of(Tcpx::new(&["connect", "server"]).env("RUST_LOG", "debug"));
    for (bytes, words) in [
        (&b"GET / HTTP/1.1\r\nHost: tcpx\r\n\r\n"[..], "does not speak this protocol"),
        (&[1, 0, 0, 0, 0, 0, 0, 0, 99], "version 99"),
        // Another release, which is said with ours; and one that wants to write into a terminal.
        (b"\x07\0\0\0\0\0\0\0\x63\x050.9.0", "runs tcpx 0.9.0 and this end"),
        (b"\x07\0\0\0\0\0\0\0\x63\x050.9.0", concat!("this end tcpx ", env!("CARGO_PKG_VERSION"))),
        (b"\x07\0\0\0\0\0\0\0\x63\x050\x1b[2J", "runs tcpx"),
        (&huge, "4294967295 bytes"),
        (&nonsense, "cannot be read"),
        (&out_of_turn, "sent its go where its request was due"),
        (&gives_up, "the other end failed: why"),
        (b"TCPX", "closed the connection"),
        (&[0, 1, 0, 0, 0, 0, 0, 0], "frame of 256 bytes"),
        (&after_greeting(&[3, 0]), "closed the connection"),
        (b"", "closed the connection"),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(bytes).unwrap();
        // The server may have read enough and hung up already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        let line = server.wait_for_line("connection rejected: ");
        assert!(line.contains(words) && !line.contains('\u{1b}'), "{words}: {line:?}");
    }
    let client = client(&server, &[]);
    assert_eq!(client.status, Some(0), "{client}");
    let finished = server.finish();
    assert_eq!(finished.status, Some(0), "{finished}");
}

#[test]
fn silent_connections_do_not_delay_the_client() {
    let server = Server::start(&["connect", "server"]);
    let _silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    let start = Instant::now();
    let client = client(&server, &[]);
    assert_eq!(client.status, Some(0), "{client}");
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert_eq!(server.finish().status, Some(0));
}

#[test]
fn a_timeout_of_the_server_names_rejected_connections() {
    with_timeout(2, |timeout| {
        let start = Instant::now();
        let server = Server::start(&["connect", "server", "--timeout", &timeout.flag()]);
        let mut other = TcpStream::connect(("127.0.0.1", server.port)).ok()?;
        other.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
        let written = Instant::now();
        let finished = server.finish();
        timeout.had_half(start, written).then_some(())?;
        let words = ["no client connected", "1 connection was rejected", "protocol"];
        finished.expect_error(&words);
        Some(())
    });
}

#[test]
fn only_an_end_with_the_token_connects() {
    let server = Server::start(&["connect", "server", "--token", TOKEN]);
    let without = client(&server, &[]);
    without.expect_error(&["requires a token", "--token TOKEN", "TCPX-737"]);
    let wrong = client(&server, &["--token", "another-horse-battery"]);
    wrong.expect_error(&["has another token"]);
    let right = client(&server, &["--token", TOKEN]);
    assert_eq!(right.status, Some(0), "{right}");
    let finished = server.finish();
    assert_eq!(finished.status, Some(0), "{finished}");
    assert!(!finished.stderr.contains("trusted networks only"), "{finished}");

    let open = Server::start(&["connect", "server"]);
    let strict = client(&open, &["--token", TOKEN]);
    strict.expect_error(&["asks for no token", "TCPX-737"]);
    assert_eq!(client(&open, &[]).status, Some(0));
    let finished = open.finish();
    assert!(finished.stderr.contains("no --token: for trusted networks only"), "{finished}");
}

#[test]
fn a_token_that_the_server_makes_is_shown_and_good() {
    let server = Tcpx::new(&["connect", "server", "--port", "0", "--token", "auto"]).start();
    let token = server.wait_for_line("token: ")["token: ".len()..].to_owned();
    let address = format!("127.0.0.1:{}", server.port());
    let client = client_of(&address, &["--token", &token]);
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(server.finish().status, Some(0));
}

#[test]
fn a_server_that_runs_for_ever_serves_one_after_the_other() {
    let server = Server::of(
        Tcpx::new(&["perf", "server", "--forever", "--timeout", "60"])
            .env("RUST_LOG", "tcpx=debug"),
    );
    let perf = |words: &[&str]| {
        let size = ["perf", "--size", "64K"];
        server.client(&[&size[..], words].concat()).env("RUST_LOG", "tcpx=debug").start()
    };
    // Each connects as soon as the one before has ended, which the server may not know yet.
    for _ in 0..5 {
        let served = perf(&["--iters", "3"]).finish();
        assert_eq!(served.status, Some(0), "{served}");
    }
    let long = perf(&["--latency", "--idle-ms", "100", "--iters", "100000"]);
    long.wait_for_line("measuring");
    perf(&["--iters", "3"])
        .finish()
        .expect_error(&["the server is busy with 127.0.0.1:", "try again later"]);
    long.process.signal(Signal::KILL);
    long.finish();
    // When the second of these is served, the server is through with the first.
    for _ in 0..2 {
        let served = perf(&["--iters", "3"]).finish();
        assert_eq!(served.status, Some(0), "{served}");
    }
    // A shell that starts this in the background may have it ignore interrupts.
    server.running.process.signal(Signal::TERM);
    let finished = server.finish();
    assert!(finished.stdout.matches("recv GB/s").count() >= 2, "{finished}");
    assert!(finished.stderr.contains("error: client 127.0.0.1:"), "{finished}");
}

#[test]
fn a_server_listens_at_the_given_address() {
    let server = Server::start(&["connect", "server", "--bind", "127.0.0.2"]);
    let missed = client(&server, &["--timeout", "2"]);
    missed.expect_error(&["no server at 127.0.0.1"]);
    let client = client_of(&format!("127.0.0.2:{}", server.port), &[]);
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(server.finish().status, Some(0));
}

#[test]
fn the_two_ends_may_meet_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    let server = Server::start(&["connect", "server", "--bind", "::"]);
    let client = client_of(&format!("[::1]:{}", server.port), &[]);
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(server.finish().status, Some(0));
}

#[test]
fn a_server_over_ipv4_alone_says_so_to_who_comes_over_ipv6() {
    let server = Server::start(&["connect", "server"]);
    let missed = client_of(&format!("[::1]:{}", server.port), &["--timeout", "2"]);
    match missed.stderr.contains("os error 99") {
        true => report_skip("this machine has no IPv6"),
        false => missed.expect_error(&["give its IPv4 address", "--bind ::", "TCPX-607"]),
    }
    assert_eq!(client(&server, &[]).status, Some(0));
    assert_eq!(server.finish().status, Some(0));
}

#[test]
fn flags_of_servers_are_refused_elsewhere() {
    for (words, expected) in [
        (&["perf", "--bind", "127.0.0.1"][..], "--bind is for a server"),
        (&["perf", "client", "10.0.0.1", "--forever"], "--forever is for the server"),
        (&["perf", "--token", TOKEN], "--token is for a server"),
        (&["perf", "client", "10.0.0.1", "--token", "auto"], "--token TOKEN"),
        (&["perf", "server", "--token", "short"], "12 to 256"),
    ] {
        let finished = Tcpx::new(words).run();
        assert_eq!(finished.status, Some(2), "{finished}");
        finished.expect_error(&[expected]);
    }
}
