//! Tests of `tcpx perf` whose data path breaks: the end that fails names the call and where, and
//! the other one repeats it as what its peer has said.

use std::path::PathBuf;

use tcpx_testkit::process::library;

use crate::tcpx::{Finished, Server, Tcpx};

/// The end whose plugin fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FailingEnd {
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
fn measure(failing: FailingEnd, fault: &str) -> [Finished; 2] {
    let faults = |end| if end == failing { fault } else { "" };
    let words = ["perf", "server", "--timeout", "60"];
    let server = Server::of(with_faults(Tcpx::new(&words), faults(FailingEnd::Server)));
    let words = ["perf", "--size", "1M", "--iters", "100", "--channels", "1", "--timeout", "60"];
    let client = with_faults(server.client(&words), faults(FailingEnd::Client)).run();
    let ends = [client, server.finish()];
    for end in &ends {
        assert_eq!(end.status, Some(1), "{fault}: {end}");
    }
    ends
}

/// Errors of a plugin that fails, at the client and at the server.
const CAUSES: [&str; 2] = [
    "returned 2 (ncclSystemError) during send, peer server, channel 0, NIC ",
    "returned 2 (ncclSystemError) during receive, peer client, channel 0, NIC ",
];

/// Returns whether an end failed with the reason of the other one.
fn has_reason_of_other_end(end: &Finished) -> bool {
    let prefixes = ["it aborted: ", "the other end failed: "];
    prefixes.iter().any(|words| end.error().contains(words))
}

fn both_ends_name(failing: FailingEnd, call: &str) {
    let ends = measure(failing, &format!("rc:{call}@20=2"));
    let cause = format!("plugin call {call} {}", CAUSES[failing as usize]);
    for end in &ends {
        end.expect_error(&[&cause, "TCPX-730"]);
    }
    let [client, server] = ends.each_ref().map(has_reason_of_other_end);
    assert_eq!(
        [client, server],
        [failing == FailingEnd::Server, failing == FailingEnd::Client],
        "{ends:?}"
    );
}

#[test]
fn both_ends_name_the_send_that_failed_at_the_client() {
    both_ends_name(FailingEnd::Client, "isend");
}

#[test]
fn both_ends_name_the_receive_that_failed_at_the_server() {
    both_ends_name(FailingEnd::Server, "irecv");
}

/// A socket that is cut fails at both ends. Whichever end reports first, both have a cause, and an
/// end that gets it from the other has the cause of the other.
#[test]
fn both_ends_have_a_cause_where_a_socket_is_cut() {
    for (failing, side) in [(FailingEnd::Client, "send"), (FailingEnd::Server, "recv")] {
        let ends = measure(failing, &format!("cut:{side}.data0@3000000"));
        for (index, end) in ends.iter().enumerate() {
            let whose = if has_reason_of_other_end(end) { 1 - index } else { index };
            end.expect_error(&["plugin call test ", CAUSES[whose], "TCPX-709"]);
        }
        assert!(!ends.iter().all(has_reason_of_other_end), "{ends:?}");
    }
}
