//! When an end dies, freezes or is interrupted, the other ends too, says why, and leaves nothing
//! behind.

use std::time::{Duration, Instant};

use crate::tcpx::{Running, Server, Signal, Tcpx, assert_nothing_is_left, child_of, signal};
use serial_test::serial;

/// A run that takes long enough to be disturbed, and says in its log that it is under way.
fn start_long(timeout: &str) -> Running {
    let words = ["perf", "--size", "64K", "--iters", "100000", "--timeout", timeout];
    let running = Tcpx::new(&words).env("RUST_LOG", "tcpx=debug").start();
    running.wait_for_line("iteration=3");
    running
}

#[test]
#[serial]
fn a_started_end_that_is_killed_is_reported() {
    let running = start_long("600");
    signal(Signal::KILL, child_of(running.process.id()).unwrap());
    let finished = running.finish();
    assert_eq!(finished.status, Some(1));
    let error = finished.stderr.lines().last().unwrap();
    assert!(error.starts_with("error: ") && error.contains("killed by signal 9"), "{error}");
    assert_nothing_is_left();
}

/// A socket that dies under the sender: the plugin's failure is the reason, and both ends come to
/// an end.
#[test]
#[serial]
fn a_plugin_that_fails_is_named() {
    let start = Instant::now();
    let finished = Tcpx::new(&["perf", "--size", "1M", "--timeout", "30"])
        .env("TCPX_SOFT_FAULTS", "cut:send.data0@3000000")
        .run();
    assert_eq!(finished.status, Some(1), "{finished}");
    assert!(finished.stdout.is_empty(), "{finished}");
    let errors: Vec<&str> =
        finished.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{finished}");
    assert!(errors[0].contains("plugin call test returned 2"), "{finished}");
    assert!(!errors[0].contains("the other end failed"), "{finished}");
    assert!(start.elapsed() < Duration::from_secs(45));
    assert_nothing_is_left();
}

#[test]
#[serial]
fn a_started_end_that_freezes_is_killed() {
    let running = start_long("10");
    signal(Signal::STOP, child_of(running.process.id()).unwrap());
    let finished = running.finish();
    assert_eq!(finished.status, Some(1));
    let error = finished.stderr.lines().last().unwrap();
    assert!(error.starts_with("error: "), "{error}");
    assert_nothing_is_left();
}

#[test]
#[serial]
fn neither_end_nor_kill_leaves_a_process_behind() {
    for sent in [Signal::TERM, Signal::KILL] {
        let running = start_long("600");
        signal(sent, running.process.id());
        assert_eq!(running.finish().status, None, "ended by the signal");
        assert_nothing_is_left();
    }
}

#[test]
#[serial]
fn the_peer_on_another_host_is_told() {
    let server = Server::start(&["perf", "server", "--timeout", "600"]);
    let address = format!("127.0.0.1:{}", server.port);
    let words = ["perf", "client", &address, "--size", "1M", "--iters", "100000"];
    let client = Tcpx::new(&words).env("RUST_LOG", "tcpx=debug").start();
    client.wait_for_line("iteration=3");
    signal(Signal::TERM, client.process.id());
    assert_eq!(client.finish().status, None);
    let start = Instant::now();
    let finished = server.finish();
    assert!(start.elapsed() < Duration::from_secs(45), "{finished}");
    assert_eq!(finished.status, Some(1), "{finished}");
    let errors = finished.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(errors, 1, "{finished}");
    assert_nothing_is_left();
}
