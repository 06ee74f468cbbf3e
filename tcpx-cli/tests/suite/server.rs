//! A server and who connects to it: its client, strangers, clients with another token, and those
//! that come while it is busy.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::tcpx::{Finished, Server, Signal, Tcpx, assert_nothing_is_left, report_skip, signal};
use serial_test::serial;

const TOKEN: &str = "correct-horse-battery";

fn client(server: &Server, words: &[&str]) -> Finished {
    let address = format!("127.0.0.1:{}", server.port);
    Tcpx::new(&[&["connect", "client", &address], words].concat()).run()
}

/// Asserts one error line with `words`.
fn expect(finished: &Finished, words: &[&str]) {
    let errors: Vec<&str> =
        finished.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(finished.status != Some(0) && errors.len() == 1, "{finished}");
    for word in words {
        assert!(errors[0].contains(word), "{word:?} is missing: {finished}");
    }
}

#[test]
#[serial]
fn garbage_on_the_bootstrap_port_ends_nothing() {
    // Frames of length, kind and body. A greeting is of kind 0, an abort of kind 1, a request of 2.
    let greeting = [&[24, 0, 0, 0, 0, 0, 0, 0, 9, 5][..], b"0.1.0", &[7; 16], &[0]].concat();
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
        let line = server.wait_for_line("turned away: ");
        assert!(line.contains(words) && !line.contains('\u{1b}'), "{words}: {line:?}");
    }
    let client = client(&server, &[]);
    assert_eq!(client.status, Some(0), "{client}");
    let finished = server.finish();
    assert_eq!(finished.status, Some(0), "{finished}");
}

#[test]
#[serial]
fn silent_strangers_keep_the_client_waiting_for_nothing() {
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
#[serial]
fn a_server_that_waits_in_vain_says_who_came() {
    let server = Server::start(&["connect", "server", "--timeout", "8"]);
    TcpStream::connect(("127.0.0.1", server.port))
        .unwrap()
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .unwrap();
    expect(&server.finish(), &["nobody connected", "1 who connected were turned away", "protocol"]);
}

#[test]
#[serial]
fn only_who_knows_the_token_takes_part() {
    let server = Server::start(&["connect", "server", "--token", TOKEN]);
    let without = client(&server, &[]);
    expect(&without, &["wants a token", "--token TOKEN", "TCPX-737"]);
    let wrong = client(&server, &["--token", "another-horse-battery"]);
    expect(&wrong, &["the token is another one"]);
    let right = client(&server, &["--token", TOKEN]);
    assert_eq!(right.status, Some(0), "{right}");
    let finished = server.finish();
    assert_eq!(finished.status, Some(0), "{finished}");
    assert!(!finished.stderr.contains("trusted networks only"), "{finished}");

    let open = Server::start(&["connect", "server"]);
    let strict = client(&open, &["--token", TOKEN]);
    expect(&strict, &["asks for no token", "TCPX-737"]);
    assert_eq!(client(&open, &[]).status, Some(0));
    let finished = open.finish();
    assert!(finished.stderr.contains("no --token: for trusted networks only"), "{finished}");
}

#[test]
#[serial]
fn a_token_that_the_server_makes_is_shown_and_good() {
    let running = Tcpx::new(&["connect", "server", "--port", "0", "--token", "auto"]).start();
    let token = running.wait_for_line("token: ")["token: ".len()..].to_owned();
    let line = running.wait_for_line("listening on ");
    let address = format!("127.0.0.1:{}", line.rsplit(':').next().unwrap());
    let client = Tcpx::new(&["connect", "client", &address, "--token", &token]).run();
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(running.finish().status, Some(0));
}

#[test]
#[serial]
fn a_server_that_runs_for_ever_serves_one_after_the_other() {
    let mut server = Server::of(
        Tcpx::new(&["perf", "server", "--forever", "--timeout", "60"])
            .env("RUST_LOG", "tcpx=debug"),
    );
    let address = format!("127.0.0.1:{}", server.port);
    let perf = |words: &[&str]| {
        let size = ["perf", "client", &address, "--size", "64K", "--iters"];
        Tcpx::new(&[&size[..], words].concat()).env("RUST_LOG", "tcpx=debug").start()
    };
    // Each comes as soon as the one before has gone, which the server may not have heard.
    for _ in 0..5 {
        let served = perf(&["3"]).finish();
        assert_eq!(served.status, Some(0), "{served}");
    }
    let long = perf(&["100000"]);
    long.wait_for_line("iteration=3");
    expect(&perf(&["3"]).finish(), &["the server is busy with 127.0.0.1:", "try again later"]);
    signal(Signal::KILL, long.process.id());
    long.finish();
    // When the second of these is served, the server is through with the first.
    for _ in 0..2 {
        let served = perf(&["3"]).finish();
        assert_eq!(served.status, Some(0), "{served}");
    }
    // Whoever starts this in the background may have told it to ignore an interrupt.
    signal(Signal::TERM, server.running().process.id());
    let finished = server.finish();
    assert!(finished.stdout.matches("recv GB/s").count() >= 2, "{finished}");
    assert!(finished.stderr.contains("error: client 127.0.0.1:"), "{finished}");
    assert_nothing_is_left();
}

#[test]
#[serial]
fn a_server_listens_where_it_is_told() {
    let running = Tcpx::new(&["connect", "server", "--port", "0", "--bind", "127.0.0.2"]).start();
    let line = running.wait_for_line("listening on 127.0.0.2:");
    let port = line.rsplit(':').next().unwrap();
    let elsewhere = format!("127.0.0.1:{port}");
    let missed = Tcpx::new(&["connect", "client", &elsewhere, "--timeout", "2"]).run();
    expect(&missed, &["no server at 127.0.0.1"]);
    let client = Tcpx::new(&["connect", "client", &format!("127.0.0.2:{port}")]).run();
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(running.finish().status, Some(0));
}

#[test]
#[serial]
fn the_two_ends_may_meet_over_ipv6() {
    if TcpStream::connect("[::1]:1").is_err_and(|it| it.raw_os_error() == Some(99)) {
        report_skip("this machine has no IPv6");
        return;
    }
    let running = Tcpx::new(&["connect", "server", "--port", "0", "--bind", "::"]).start();
    let line = running.wait_for_line("listening on [::]:");
    let port = line.rsplit(':').next().unwrap();
    let client = Tcpx::new(&["connect", "client", &format!("[::1]:{port}")]).run();
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(running.finish().status, Some(0));
}

#[test]
#[serial]
fn a_server_over_ipv4_alone_says_so_to_who_comes_over_ipv6() {
    let server = Server::start(&["connect", "server"]);
    let address = format!("[::1]:{}", server.port);
    let missed = Tcpx::new(&["connect", "client", &address, "--timeout", "2"]).run();
    match missed.stderr.contains("os error 99") {
        true => report_skip("this machine has no IPv6"),
        false => expect(&missed, &["give its IPv4 address", "--bind ::", "TCPX-607"]),
    }
    assert_eq!(client(&server, &[]).status, Some(0));
    assert_eq!(server.finish().status, Some(0));
}

#[test]
#[serial]
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
        expect(&finished, &[expected]);
    }
}
