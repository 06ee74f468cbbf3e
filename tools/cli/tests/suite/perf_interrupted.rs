//! Tests of Ctrl-C while `tcpx perf` measures: both ends come to an end, and show what there is.

use tcpx_testkit::report_skip;

use crate::tcpx::{Running, Server, Signal, Tcpx};
use serde_json::Value;

const DEBUG: (&str, &str) = ("RUST_LOG", "tcpx=debug");

/// Runs a measurement that takes longer than the test waits, with some iterations over.
fn start(tcpx: Tcpx) -> Running {
    let running = tcpx.env(DEBUG.0, DEBUG.1).start();
    running.wait_for_line("iteration=7");
    running
}

fn assert_partial(object: &Value) {
    assert_eq!((&object["interrupted"], &object["verified"]), (&true.into(), &true.into()));
    let iterations = object["iterations"].as_u64().unwrap();
    assert!((1..100_000).contains(&iterations), "{object}");
    assert!(object["receiver"]["gb_per_s_median"].as_f64().unwrap() > 0.0, "{object}");
}

#[test]
fn the_first_interrupt_shows_what_was_measured() {
    if ignores_interrupts() {
        report_skip("this process ignores interrupts, and so does everything that it starts");
        return;
    }
    for format in ["--json", "--csv"] {
        let running = start(Tcpx::new(&["perf", "--size", "64K", "--iters", "100000", format]));
        running.process.signal(Signal::INT);
        let finished = running.finish();
        assert_eq!(finished.status, Some(130), "{finished}");
        assert!(finished.stderr.contains("error: interrupted"), "{finished}");
        match format {
            "--json" => assert_partial(&serde_json::from_str(&finished.stdout).unwrap()),
            _ => assert_eq!(finished.stdout.lines().count(), 2, "a heading, a row: {finished}"),
        }
    }
}

#[test]
fn the_second_interrupt_ends_it_at_once() {
    if ignores_interrupts() {
        report_skip("this process ignores interrupts, and so does everything that it starts");
        return;
    }
    let words = ["perf", "--latency", "--idle-ms", "10000", "--iters", "9", "--warmup", "0"];
    let mut running = Tcpx::new(&words).env(DEBUG.0, DEBUG.1).start();
    running.wait_for_line("measuring");
    // Two that come at once are one to the system.
    while running.process.try_wait().unwrap().is_none() {
        running.process.signal(Signal::INT);
    }
    assert_eq!(running.finish().status, None, "ended by the signal");
}

#[test]
fn the_other_host_has_the_partial_result_too() {
    if ignores_interrupts() {
        report_skip("this process ignores interrupts, and so does everything that it starts");
        return;
    }
    let server = Server::start(&["perf", "server", "--json"]);
    let words = ["perf", "--size", "64K,1M", "--duration", "3600", "--json"];
    let client = start(server.client(&words));
    client.process.signal(Signal::INT);
    let client = client.finish();
    assert_eq!(client.status, Some(130), "{client}");
    let client: Value = serde_json::from_str(&client.stdout).unwrap();
    // The server was not interrupted.
    let server = server.finish().json();
    for object in [&client, &server] {
        assert_partial(object);
        assert_eq!(object["sweep"].as_array().unwrap().len(), 1, "the second size never began");
    }
    assert_eq!(client["iterations"], server["iterations"]);
}

/// Whether SIGINT, number 2, is ignored in this process.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("status of this process");
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .expect("a mask of ignored signals");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal digits") & 0b10 != 0
}
