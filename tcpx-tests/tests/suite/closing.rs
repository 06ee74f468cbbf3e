//! Comms that take long to close. They block no other thread, and memory that they may use stays.

use std::time::{Duration, Instant};

use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Refusal};

use crate::peers_to_run;

const BYTES: u64 = 64 << 20;
/// What a slow machine moves before a call of the plugin is given up.
const LITTLE: u64 = 1 << 20;
/// The first comm that the hub closes takes longer than operations of a peer that ended wait, and
/// than a call may take.
const LONG_DELAY: &str = "delay:closeSend/closeRecv@1=15000";

/// A hub, and two sessions that it knows as "a" and "b".
struct Star {
    hub: Agent,
    a: Agent,
    b: Agent,
}

fn star(faults_of_hub: &str, faults_of_a: &str) -> Star {
    let mut hub = peers_to_run::agent_with(&[("TCPX_SOFT_FAULTS", faults_of_hub)]);
    let options = Options {
        channels: Some(1),
        chunk_bytes: Some(65_536),
        progress_thread: true,
        ..Options::default()
    };
    hub.run(Command::New(options.clone()));
    let conn_info: Vec<u8> = hub.get(Command::Listen);
    let [a, b] = [("a", faults_of_a), ("b", "")].map(|(name, faults)| {
        let mut agent = peers_to_run::agent_with(&[("TCPX_SOFT_FAULTS", faults)]);
        agent.run(Command::New(options.clone()));
        agent.run(Command::Load { peer: "hub".into(), conn_info: conn_info.clone() });
        hub.send_command(Command::Accept { peer: name.into() });
        agent.run(Command::Connect { peer: "hub".into() });
        hub.receive_reply(PATIENCE).expect("it is accepted");
        agent
    });
    Star { hub, a, b }
}

/// Posts one operation, and returns the memory and the number of its transfer.
fn post(agent: &mut Agent, peer: &str, is_send: bool, bytes: u64) -> (u64, usize) {
    let memory = agent.get(Command::Allocate { bytes, memory: Memory::Host });
    let transfer = agent.get(Command::Transfer { peer: peer.into() });
    let posts = vec![PostSpec { memory, offset: 0, bytes, tag: 1 }];
    agent.run(match is_send {
        true => Command::Send { transfer, posts },
        false => Command::Receive { transfer, posts },
    });
    (memory, transfer)
}

fn state_of_its_peer(agent: &mut Agent) -> String {
    let stats: serde_json::Value = agent.get(Command::Stats);
    stats["peers"][0]["state"].as_str().expect("a peer has a state").to_owned()
}

fn hung_calls(agent: &mut Agent) -> u64 {
    let stats: serde_json::Value = agent.get(Command::Stats);
    stats["plugin_calls_hung"].as_u64().expect("they are counted")
}

fn expect_no_reply(agent: &mut Agent) {
    let reply = agent.receive_reply(Duration::ZERO);
    assert!(matches!(reply, Err(Refusal::Silent)), "it has ended before: {reply:?}");
}

#[test]
#[ignore = "deep: it is slower than a call may be"]
fn a_comm_that_closes_slowly_holds_up_no_other_peer() {
    let Star { mut hub, mut a, mut b } = star(LONG_DELAY, "");
    // Both ways with b; b's part comes later.
    let (_, receive) = post(&mut hub, "b", false, LITTLE);
    post(&mut hub, "b", true, LITTLE);
    hub.send_command(Command::Disconnect { peer: "a".into() });
    let give_up_at = Instant::now() + PATIENCE;
    while state_of_its_peer(&mut a) != "closing" {
        assert!(Instant::now() < give_up_at, "the hub says no goodbye");
    }
    let (_, sent) = post(&mut b, "hub", true, LITTLE);
    let (_, received) = post(&mut b, "hub", false, LITTLE);
    for transfer in [sent, received] {
        b.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    }
    expect_no_reply(&mut hub);
    // It takes longer than a call of the plugin may.
    let refusal = hub.receive_reply(PATIENCE).expect_err("the comm does not close in time");
    assert_eq!(refusal.failure().kind, "PluginHangs");
    let give_up_at = Instant::now() + PATIENCE;
    while hung_calls(&mut hub) != 0 {
        assert!(Instant::now() < give_up_at, "the call never returns");
    }
    hub.run(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS });
}

/// The comm that receives closes last, when the peer has sent everything and is gone: nothing is to
/// be done until then, and nothing is.
#[test]
fn waiting_for_the_last_comm_to_close_uses_no_cpu() {
    let Star { mut hub, mut a, b: _b } = star("delay:closeSend/closeRecv@2=2000", "");
    let (before, began) = (hub.processor_time(), Instant::now());
    hub.send_command(Command::Disconnect { peer: "a".into() });
    a.run(Command::Disconnect { peer: "hub".into() });
    assert!(a.end(PATIENCE).is_some(), "its link ends with it");
    hub.receive_reply(PATIENCE).expect("the goodbye is answered");
    assert!(began.elapsed() >= Duration::from_secs(2), "the second comm was not slow");
    let used = hub.processor_time() - before;
    assert!(used < Duration::from_millis(200), "{used:?} of two seconds");
}

#[test]
fn memory_stays_until_the_comm_that_receives_into_it_is_closed() {
    memory_stays("delay:closeSend/closeRecv@1=2000");
}

#[test]
#[ignore = "deep: it is slower than a call may be"]
fn memory_stays_until_the_comm_that_receives_into_it_is_closed_however_late() {
    memory_stays(LONG_DELAY);
}

fn memory_stays(delay: &str) {
    // It stops in the middle of its message, with more behind it than sockets hold: the hub has
    // begun to receive it.
    let Star { mut hub, mut a, b: _b } = star(delay, "freeze:isend@512");
    let (memory, receive) = post(&mut hub, "a", false, BYTES);
    let memory_of_a = a.get(Command::Allocate { bytes: BYTES, memory: Memory::Host });
    let transfer = a.get(Command::Transfer { peer: "hub".into() });
    let posts = vec![PostSpec { memory: memory_of_a, offset: 0, bytes: BYTES, tag: 1 }];
    a.send_command(Command::Send { transfer, posts });
    assert!(a.wait_until_stopped(PATIENCE), "it sends nothing");
    a.kill();
    let ended_at = Instant::now();
    let failure =
        hub.ask(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS }).expect_err("killed");
    assert_eq!(failure.failure().kind, "PeerGone");
    hub.run(Command::Deregister { memory });
    let waited = ended_at.elapsed();
    assert!(waited >= Duration::from_secs(1), "a comm may still write it: {waited:?}");
}
