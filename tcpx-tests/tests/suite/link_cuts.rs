//! The link between two hosts is cut in every phase of a peer's life, and restored: errors come
//! with their deadlines, name the peer, and leave another peer alone; what is restored in time goes
//! on; and afterwards the name works again.
//!
//! The phase is exact: the software plugin of the peer stops its process at a scripted call, and it
//! goes on once the link is cut.

use std::path::Path;
use std::process::Command as Process;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, PATIENCE_MS};
use tcpx_tests::{Agent, Network, PacketFate, Side, Trio};

use crate::peers_to_run;

/// Deadline of calls that end by it: long enough for two processes to meet on a busy machine.
const DEADLINE_MS: u64 = 8_000;
/// What a deadline may be late by on a busy machine.
const SLACK_MS: u64 = 15_000;

/// What hub and victim do when the link is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Connect,
    Send,
    Receive,
    Close,
}

/// Hub and witness live on the left host, the victim on the right one.
struct Hosts {
    network: Network,
}

impl Hosts {
    fn agent(&self, host: &str, faults: &str) -> Agent {
        let mut process = Process::new("ip");
        process.args(["netns", "exec", host]).arg(Path::new(peers_to_run::PROGRAM));
        process.env("TCPX_SOFT_FAULTS", faults).env("TCPX_SOFT_POISON", "1");
        Agent::start_with(process)
    }

    fn trio(&self, faults: &str, deadline_ms: u64) -> Trio {
        let left = self.network.left();
        let hub = self.agent(&left, "");
        let victim = self.agent(&self.network.right(), faults);
        Trio::new(hub, victim, self.agent(&left, ""), deadline_ms)
    }

    fn replace_victim(&self, trio: &mut Trio) {
        trio.victim.kill();
        trio.replace_victim(self.agent(&self.network.right(), ""));
    }

    fn cut(&self) {
        self.network.set_link(false).expect("ip");
    }

    fn restore(&self) {
        self.network.set_link(true).expect("ip");
    }
}

/// The victim stops at `call`; returns the hub's transfer, if there is one.
fn bring_to(trio: &mut Trio, phase: Phase, timeout_ms: u64) -> Option<usize> {
    trio.introduce();
    if phase == Phase::Connect {
        trio.begin_to_connect();
    } else {
        trio.connect();
    }
    let transfer = match phase {
        Phase::Connect => None,
        Phase::Send | Phase::Receive => {
            let transfer = trio.post_with_victim(phase == Phase::Receive);
            trio.hub.send_command(Command::Wait { transfer, timeout_ms });
            Some(transfer)
        }
        Phase::Close => {
            // The victim answers by itself, so the hub is in its goodbye when the victim closes.
            trio.hub.send_command(Command::Disconnect { peer: "victim".into() });
            None
        }
    };
    assert!(trio.victim.wait_until_stopped(PATIENCE), "the victim came to its call");
    transfer
}

fn assert_too_late(trio: &mut Trio, phase: Phase) {
    let failure = trio.hear_failure();
    match failure.kind.as_str() {
        "Deadline" => {
            let window = DEADLINE_MS..DEADLINE_MS + SLACK_MS;
            assert!(window.contains(&failure.after_ms), "{failure:?}");
        }
        // Without a link there is no route, which the system says at once.
        "Plugin" if phase == Phase::Connect => {
            assert!(failure.text.contains("channel 0"), "{failure:?}")
        }
        _ => panic!("{failure:?}"),
    }
    assert!(failure.text.contains("during "), "{failure:?}");
}

fn cut_and_restored_too_late(phase: Phase, call: &str) {
    let Some(network) = Network::lay_or_skip() else { return };
    let hosts = Hosts { network };
    let mut trio = hosts.trio(&format!("freeze:{call}"), DEADLINE_MS);
    let expected = trio.expect_from_witness();
    bring_to(&mut trio, phase, DEADLINE_MS);
    hosts.cut();
    trio.victim.signal(Signal::CONT);
    trio.serve();
    assert_too_late(&mut trio, phase);
    trio.verify(expected);
    hosts.restore();
    hosts.replace_victim(&mut trio);
}

fn cut_and_restored_in_time(phase: Phase, call: &str) {
    let Some(network) = Network::lay_or_skip() else { return };
    let hosts = Hosts { network };
    let mut trio = hosts.trio(&format!("freeze:{call}"), PATIENCE_MS);
    let expected = trio.expect_from_witness();
    let transfer = bring_to(&mut trio, phase, PATIENCE_MS);
    hosts.cut();
    trio.victim.signal(Signal::CONT);
    trio.serve();
    hosts.restore();
    if phase == Phase::Receive {
        // The second message finds its receiver only now.
        trio.receive_the_rest();
    }
    trio.hub
        .receive_reply(PATIENCE)
        .unwrap_or_else(|refusal| panic!("{call}, {transfer:?}: {refusal:?}"));
    trio.verify(expected);
}

/// Independent cases, all at once.
fn at_once<'a>(cases: impl IntoIterator<Item = Box<dyn FnOnce() + Send + 'a>>) {
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(case);
        }
    });
}

const CALLS: [(Phase, &str); 7] = [
    (Phase::Connect, "listen@1"),
    (Phase::Connect, "connect@1"),
    (Phase::Connect, "accept@1"),
    (Phase::Send, "isend@10"),
    (Phase::Receive, "irecv@10"),
    (Phase::Receive, "irecvConsumed@5"),
    (Phase::Close, "closeSend/closeRecv@1"),
];

#[test]
#[ignore = "deep: network namespaces, in all phases"]
fn cut_for_longer_than_the_deadline() {
    at_once(CALLS.map(|(phase, call)| {
        Box::new(move || cut_and_restored_too_late(phase, call)) as Box<dyn FnOnce() + Send>
    }));
}

#[test]
#[ignore = "deep: network namespaces, in all phases"]
fn cut_for_a_moment() {
    // Without a route new connections fail at once, so connecting is not among these.
    let calls = CALLS.into_iter().filter(|(phase, _)| *phase != Phase::Connect);
    at_once(calls.map(|(phase, call)| {
        Box::new(move || cut_and_restored_in_time(phase, call)) as Box<dyn FnOnce() + Send>
    }));
}

#[test]
#[ignore = "deep: network namespaces, in all phases"]
fn cut_in_the_handshake() {
    let Some(network) = Network::lay_or_skip() else { return };
    let hosts = Hosts { network };
    let mut trio = hosts.trio("", DEADLINE_MS);
    let expected = trio.expect_from_witness();
    let conn_info = trio.introduce();
    let port = control_port(&conn_info);
    // The system takes the connection; the stopped process never greets.
    trio.victim.signal(Signal::STOP);
    assert!(trio.victim.wait_until_stopped(PATIENCE));
    trio.hub.send_command(Command::Connect { peer: "victim".into() });
    let give_up_at = Instant::now() + PATIENCE;
    while !hosts.network.is_connected_to(port).expect("ip") {
        assert!(Instant::now() < give_up_at, "the hub reaches the control listener");
    }
    hosts.cut();
    trio.victim.signal(Signal::CONT);
    trio.serve();
    assert_too_late(&mut trio, Phase::Close);
    trio.verify(expected);
    hosts.restore();
    hosts.replace_victim(&mut trio);
}

#[test]
#[ignore = "deep: network namespaces, in all phases"]
fn cut_before_anything() {
    let Some(network) = Network::lay_or_skip() else { return };
    let hosts = Hosts { network };
    let mut trio = hosts.trio("", DEADLINE_MS);
    let expected = trio.expect_from_witness();
    trio.introduce();
    hosts.cut();
    trio.hub.send_command(Command::Connect { peer: "victim".into() });
    trio.serve();
    let failure = trio.hear_failure();
    assert!(["Unreachable", "Deadline"].contains(&failure.kind.as_str()), "{failure:?}");
    assert!(failure.after_ms < DEADLINE_MS + SLACK_MS, "{failure:?}");
    trio.verify(expected);
    hosts.restore();
    hosts.replace_victim(&mut trio);
}

/// Words pass and payload is lost: the deadline ends the wait, and the message goes on once packets
/// pass again.
#[test]
#[ignore = "deep: network namespaces, in all phases"]
fn the_data_sockets_alone_are_cut() {
    let Some(network) = Network::with_filters_or_skip() else { return };
    let hosts = Hosts { network };
    let mut trio = hosts.trio("freeze:isend@10", DEADLINE_MS);
    let expected = trio.expect_from_witness();
    let port = control_port(&trio.introduce());
    trio.connect();
    let transfer = trio.post_with_victim(false);
    assert!(trio.victim.wait_until_stopped(PATIENCE), "data flows");
    hosts.network.cut_others(port, &[Side::Left, Side::Right], PacketFate::Lost).expect("nft");
    trio.victim.signal(Signal::CONT);
    trio.hub.send_command(Command::Wait { transfer, timeout_ms: DEADLINE_MS });
    trio.serve();
    assert_too_late(&mut trio, Phase::Receive);
    trio.verify(expected);
    hosts.network.unblock().expect("nft");
    trio.hub.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    trio.victim.receive_reply(PATIENCE).expect("the victim posted its sends");
    trio.exchange_with_victim();
}

/// Payload passes and words are lost: what was matched before needs no more of them.
#[test]
#[ignore = "deep: network namespaces, in all phases"]
fn the_control_link_alone_is_cut() {
    let Some(network) = Network::with_filters_or_skip() else { return };
    let hosts = Hosts { network };
    let mut trio = hosts.trio("freeze:irecv@10", PATIENCE_MS);
    let expected = trio.expect_from_witness();
    let port = control_port(&trio.introduce());
    trio.connect();
    let (send, receive) = trio.post_send_to_victim();
    assert!(trio.victim.wait_until_stopped(PATIENCE), "data flows");
    hosts.network.block(port).expect("nft");
    trio.victim.signal(Signal::CONT);
    trio.victim.run(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS });
    trio.hub.run(Command::Wait { transfer: send, timeout_ms: PATIENCE_MS });
    hosts.network.unblock().expect("nft");
    trio.exchange_with_victim();
    trio.serve();
    trio.verify(expected);
}

fn control_port(conn_info: &[u8]) -> u16 {
    tcpx_tests::control_addresses(conn_info)[0].port()
}
