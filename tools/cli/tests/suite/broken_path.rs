//! Tests of `tcpx perf` whose data path breaks: the end that fails names the call and where, and
//! the other one repeats it as what its peer has said.

use std::path::PathBuf;

use tcpx_testkit::process::library;

use crate::tcpx::{Finished, Server, Tcpx};

/// The end whose plugin fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Client,
    Server,
}

fn faulty() -> PathBuf {
    library("libnccl_net_tcpx_faulty.so")
}

/// A command line whose plugin does as this script says.
fn with_faults(tcpx: Tcpx, faults: &str) -> Tcpx {
    tcpx.env("TCPX_PLUGIN", faulty().to_str().expect("a path"))
        .env("TCPX_PREFLIGHT", "0")
        .env("TCPX_SOFT_FAULTS", faults)
}

/// Both ends of a measurement, client first. One has this fault.
fn measure(broken: Broken, fault: &str) -> [Finished; 2] {
    let faults = |end| if end == broken { fault } else { "" };
    let words = ["perf", "server", "--timeout", "60"];
    let server = Server::of(with_faults(Tcpx::new(&words), faults(Broken::Server)));
    let words = ["perf", "--size", "1M", "--iters", "100", "--channels", "1", "--timeout", "60"];
    let client = with_faults(server.client(&words), faults(Broken::Client)).run();
    let ends = [client, server.finish()];
    for end in &ends {
        assert_eq!(end.status, Some(1), "{fault}: {end}");
    }
    ends
}

/// What a plugin says that fails, at the client and at the server.
const CAUSES: [&str; 2] = [
    "returned 2 (ncclSystemError) during send, peer server, channel 0, NIC ",
    "returned 2 (ncclSystemError) during receive, peer client, channel 0, NIC ",
];

/// Whether an end has heard of its failure from the other one.
fn is_told(end: &Finished) -> bool {
    let told = ["it aborted: ", "the other end failed: "];
    told.iter().any(|words| end.error().contains(words))
}

fn both_ends_name(broken: Broken, call: &str) {
    let ends = measure(broken, &format!("rc:{call}@20=2"));
    let cause = format!("plugin call {call} {}", CAUSES[broken as usize]);
    for end in &ends {
        end.expect_error(&[&cause, "TCPX-730"]);
    }
    let [client, server] = ends.each_ref().map(is_told);
    assert_eq!([client, server], [broken == Broken::Server, broken == Broken::Client], "{ends:?}");
}

#[test]
fn both_ends_name_the_send_that_failed_at_the_client() {
    both_ends_name(Broken::Client, "isend");
}

#[test]
fn both_ends_name_the_receive_that_failed_at_the_server() {
    both_ends_name(Broken::Server, "irecv");
}

/// A socket that is cut fails at both ends: whichever says so first, no end is without a cause, and
/// one that hears it from the other has what that says of itself.
#[test]
fn both_ends_have_a_cause_where_a_socket_is_cut() {
    for (broken, side) in [(Broken::Client, "send"), (Broken::Server, "recv")] {
        let ends = measure(broken, &format!("cut:{side}.data0@3000000"));
        for (index, end) in ends.iter().enumerate() {
            let whose = if is_told(end) { 1 - index } else { index };
            end.expect_error(&["plugin call test ", CAUSES[whose], "TCPX-709"]);
        }
        assert!(!ends.iter().all(is_told), "{ends:?}");
    }
}
