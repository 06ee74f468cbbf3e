//! Tests of an end whose other end dies or is interrupted: it ends too, says why, and leaves
//! nothing behind.

use std::time::{Duration, Instant};

use tcpx_testkit::process::send;

use crate::tcpx::{Running, Server, Signal, Tcpx, child_of};

/// A run that takes long enough to be disturbed, and says in its log that it is under way.
fn start_long(tcpx: Tcpx) -> Running {
    let words = ["--size", "64K", "--iters", "100000"];
    let running = tcpx.args(&words).env("RUST_LOG", "tcpx=debug").start();
    running.wait_for_line("iteration=3");
    running
}

fn start_long_pair() -> Running {
    start_long(Tcpx::new(&["perf", "--timeout", "600"]))
}

#[test]
fn a_started_end_that_is_killed_is_reported() {
    let running = start_long_pair();
    send(Signal::KILL, child_of(running.process.id()).unwrap()).unwrap();
    let finished = running.finish();
    assert_eq!(finished.status, Some(1));
    let error = finished.stderr.lines().last().unwrap();
    assert!(error.starts_with("error: ") && error.contains("killed by signal 9"), "{error}");
}

/// A socket that dies under the sender: the plugin's failure is the reason, and both ends come to
/// an end.
#[test]
fn a_plugin_that_fails_is_named() {
    let start = Instant::now();
    let program = std::env::current_exe().unwrap();
    let plugin = program.with_file_name("libnccl_net_tcpx_faulty.so");
    let finished = Tcpx::new(&["perf", "--size", "1M", "--timeout", "30"])
        .env("TCPX_PLUGIN", plugin.to_str().unwrap())
        .env("TCPX_PREFLIGHT", "0")
        .env("TCPX_SOFT_FAULTS", "cut:send.data0@3000000")
        .run();
    assert_eq!(finished.status, Some(1), "{finished}");
    assert!(finished.stdout.is_empty(), "{finished}");
    let error = finished.error();
    assert!(error.contains("plugin call test returned 2"), "{finished}");
    assert!(!error.contains("the other end failed"), "{finished}");
    assert!(start.elapsed() < Duration::from_secs(45));
}

#[test]
fn neither_end_nor_kill_leaves_a_process_behind() {
    for sent in [Signal::TERM, Signal::KILL] {
        let running = start_long_pair();
        running.process.signal(sent);
        assert_eq!(running.finish().status, None, "ended by the signal");
    }
}

/// A stopped end: its sockets stay open and its host acknowledges, so only the silence of the
/// process tells. A step of the command has 30 s.
#[test]
fn an_end_that_is_stopped_is_reported_after_the_peer_timeout() {
    const TIMEOUT: (&str, &str) = ("TCPX_PEER_TIMEOUT_MS", "2000");
    let stop = |op, stops_server| {
        let server = Tcpx::new(&["perf", "server"]).env(TIMEOUT.0, TIMEOUT.1);
        let server = Server::of(server);
        let words = ["perf", "--op", op, "--size", "64K", "--iters", "100000"];
        let client = server.client(&words).env("RUST_LOG", "tcpx=debug");
        let client = client.env(TIMEOUT.0, TIMEOUT.1).start();
        client.wait_for_line("measuring");
        let (stopped, other) =
            if stops_server { (server.running, client) } else { (client, server.running) };
        stopped.process.signal(Signal::STOP);
        let start = Instant::now();
        let finished = other.finish();
        let time = start.elapsed();
        stopped.process.signal(Signal::KILL);
        stopped.finish();
        assert!(time < Duration::from_secs(20), "{op}, {stops_server}: {time:?}, {finished}");
        assert_eq!(finished.status, Some(1), "{finished}");
        finished.expect_error(&["nothing was heard of it for 2.0 s", "frozen"]);
    };
    std::thread::scope(|scope| {
        for op in ["send", "write", "read"] {
            for stops_server in [true, false] {
                scope.spawn(move || stop(op, stops_server));
            }
        }
    });
}

#[test]
fn the_peer_on_another_host_gets_the_reason() {
    let server = Server::start(&["perf", "server", "--timeout", "600"]);
    let client = start_long(server.client(&["perf"]));
    client.process.signal(Signal::TERM);
    assert_eq!(client.finish().status, None);
    let start = Instant::now();
    let finished = server.finish();
    assert!(start.elapsed() < Duration::from_secs(45), "{finished}");
    assert_eq!(finished.status, Some(1), "{finished}");
    finished.error();
}
