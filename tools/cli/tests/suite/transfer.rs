//! Tests of `tcpx transfer`, which shows every step, and `tcpx connect`, which is the handshake
//! only.

use crate::tcpx::{Server, Tcpx};

/// What `tcpx transfer --help` promises of the server's log, in this order.
const SERVER_LINES: [&str; 14] = [
    "=== TCPX GPU-to-GPU transfer test ===",
    "Using payload_bytes=23",
    "Running in SERVER mode",
    "net->init",
    "net->devices",
    "Bootstrap connection established",
    "connection accepted",
    "Registered server receive buffer ptr=0x",
    "Waiting for client data, expected bytes=23",
    "request metadata",
    "descriptor[0] src_off=",
    "48 65 6c 6c 6f 20 66 72 6f 6d 20 54 43 50 58 20 63 6c 69 65 6e 74 21",
    "Received data (23 bytes): Hello from TCPX client!",
    "Data validation PASSED",
];

const CLIENT_LINES: [&str; 7] = [
    "Running in CLIENT mode",
    "connection established",
    "Registered client send buffer ptr=0x",
    "Wrote test message to GPU buffer: Hello from TCPX client!",
    "Sending 23 bytes with tag 42",
    "Send completed successfully",
    "Client test completed successfully",
];

fn assert_lines(log: &str, end: &str, expected: &[&str]) {
    let mut lines = log.lines().filter(|line| line.contains(end));
    for words in expected {
        assert!(
            lines.any(|line| line.contains(words)),
            "{end} {words:?} is missing or out of order:\n{log}"
        );
    }
}

#[test]
fn transfer_shows_every_step_in_order_and_passes() {
    let finished = Tcpx::new(&["transfer"]).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    assert!(finished.stdout.starts_with("PASSED: 23 bytes"), "{finished}");
    assert_lines(&finished.stderr, "server: ", &SERVER_LINES);
    assert_lines(&finished.stderr, "client: ", &CLIENT_LINES);
    for words in ["rc=0", "ndev=", "device handle: meta=0x", "bounce_buf=0x", "len=23 dst_off=0"] {
        assert!(finished.stderr.contains(words), "{words}: {finished}");
    }
}

#[test]
fn transfer_between_two_hosts() {
    let server = Server::start(&["transfer", "server"]);
    let client = server.client(&["transfer", "--memory", "host"]).run();
    let server = server.finish();
    for finished in [&client, &server] {
        assert_eq!(finished.status, Some(0), "{finished}");
        assert!(finished.stdout.starts_with("PASSED"), "{finished}");
    }
}

#[test]
fn connect_is_the_handshake_only() {
    for flags in [&[][..], &["--channels", "8"]] {
        let finished = Tcpx::new(&[&["connect"], flags].concat()).run();
        assert_eq!(finished.status, Some(0), "{finished}");
        assert!(finished.stdout.contains("connected and closed"), "{finished}");
        assert!(finished.stderr.is_empty(), "{finished}");
    }
    let server = Server::start(&["connect", "server"]);
    let client = server.client(&["connect"]).run();
    let server = server.finish();
    assert_eq!((client.status, server.status), (Some(0), Some(0)), "{client}{server}");
}

#[test]
fn the_log_is_shown_when_asked_for() {
    let quiet = Tcpx::new(&["connect"]).run();
    assert!(quiet.stderr.is_empty(), "{quiet}");
    let words = ["perf", "--size", "80K", "--iters", "1", "--warmup", "0"];
    let debug = Tcpx::new(&words).env("UCCL_TCPX_DEBUG", "1").run();
    assert!(debug.stderr.contains("request metadata"), "{debug}");
    assert!(!debug.stderr.contains("descriptor[0]"), "{debug}");
    let launch = Tcpx::new(&words).env("UCCL_TCPX_LAUNCH_DEBUG", "1").run();
    assert!(launch.stderr.contains("descriptor[0]"), "{launch}");
    let chosen = Tcpx::new(&["connect"]).env("RUST_LOG", "tcpx_core=info").run();
    assert!(chosen.stderr.contains("peer is up"), "{chosen}");
}

/// Empty is unset, and a default gives way to what the plugins of both ends take.
#[test]
fn chunks_are_no_larger_than_the_variable_of_either_end() {
    const VARIABLE: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
    for (value, chunk) in [("", "chunk 524288 bytes"), ("65536", "chunk 65536 bytes")] {
        let both = Tcpx::new(&["connect"]).env(VARIABLE, value).run();
        assert!(both.stdout.contains(chunk), "{both}");
        let server = Server::of(Tcpx::new(&["connect", "server"]).env(VARIABLE, value));
        let client = server.client(&["connect"]).env(VARIABLE, "4194304").run();
        let server = server.finish();
        assert!(client.stdout.contains(chunk) && server.stdout.contains(chunk), "{client}{server}");
    }
}
