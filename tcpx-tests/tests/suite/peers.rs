//! One session and many peers.

use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::Agent;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};

use crate::peers_to_run;

const PEERS: usize = 16;
const BYTES: u64 = 700_001;

fn agent(name: &str) -> Agent {
    let mut agent = peers_to_run::agent();
    agent.run(Command::New(Options {
        name: Some(name.into()),
        chunk_bytes: Some(65_536),
        progress_thread: true,
        ..Options::default()
    }));
    agent
}

fn verify(agent: &mut Agent, memory: u64, seed: u64) {
    let difference: Value = agent.get(Command::Verify { memory, offset: 0, bytes: BYTES, seed });
    assert_eq!(difference, Value::Null);
}

fn start_transfer(agent: &mut Agent, peer: &str, is_send: bool, memory: u64) -> usize {
    let transfer = agent.get(Command::Transfer { peer: peer.into() });
    let posts = vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 5 }];
    agent.run(if is_send {
        Command::Send { transfer, posts }
    } else {
        Command::Receive { transfer, posts }
    });
    transfer
}

#[test]
fn sixteen_named_peers_at_once_each_in_both_directions() {
    let mut hub = agent("hub");
    let conn_info: Vec<u8> = hub.get(Command::Listen);
    let mut peers: Vec<(String, Agent)> =
        (0..PEERS).map(|n| (format!("peer-{n}"), agent(&format!("peer-{n}")))).collect();
    for (_, peer) in &mut peers {
        peer.run(Command::Load { peer: "hub".into(), conn_info: conn_info.clone() });
        peer.send_command(Command::Connect { peer: "hub".into() });
    }
    // Accepted in another order than they came in: a name goes only to a peer that claims it.
    for (name, _) in peers.iter().rev() {
        hub.run(Command::Accept { peer: name.clone() });
    }
    let mut rows = Vec::new();
    for (number, (name, peer)) in peers.iter_mut().enumerate() {
        peer.receive_reply(PATIENCE).expect("connected");
        let allocate = Command::Allocate { bytes: BYTES, memory: Memory::Device };
        let (up, down): (u64, u64) = (peer.get(allocate.clone()), peer.get(allocate.clone()));
        let (hub_up, hub_down): (u64, u64) = (hub.get(allocate.clone()), hub.get(allocate));
        let seeds = (number as u64, 1000 + number as u64);
        peer.run(Command::Fill { memory: up, offset: 0, bytes: BYTES, seed: seeds.0 });
        hub.run(Command::Fill { memory: hub_down, offset: 0, bytes: BYTES, seed: seeds.1 });
        let transfers = [
            start_transfer(peer, "hub", true, up),
            start_transfer(peer, "hub", false, down),
            start_transfer(&mut hub, name, false, hub_up),
            start_transfer(&mut hub, name, true, hub_down),
        ];
        rows.push((down, hub_up, seeds, transfers));
    }
    for ((_, peer), (down, hub_up, seeds, transfers)) in peers.iter_mut().zip(&rows) {
        for transfer in &transfers[..2] {
            peer.run(Command::Wait { transfer: *transfer, timeout_ms: PATIENCE_MS });
        }
        for transfer in &transfers[2..] {
            hub.run(Command::Wait { transfer: *transfer, timeout_ms: PATIENCE_MS });
        }
        verify(peer, *down, seeds.1);
        verify(&mut hub, *hub_up, seeds.0);
    }
    let stats: Value = hub.get(Command::Stats);
    let reports = stats["peers"].as_array().unwrap();
    assert_eq!(reports.len(), PEERS);
    for report in reports {
        assert_eq!(
            (&report["messages_sent"], &report["messages_received"]),
            (&1.into(), &1.into()),
            "{report}"
        );
    }
    hub.run(Command::Close);
}

#[test]
fn a_session_connects_and_accepts_at_the_same_time() {
    // a → b → c → a, all at once: each accepts one and connects to one.
    let mut agents = ["a", "b", "c"].map(|name| (name, agent(name)));
    let infos: Vec<Vec<u8>> =
        agents.iter_mut().map(|(_, agent)| agent.get(Command::Listen)).collect();
    for index in 0..3 {
        let next = (index + 1) % 3;
        let name = agents[next].0;
        agents[index].1.run(Command::Load { peer: name.into(), conn_info: infos[next].clone() });
    }
    // Scripted peers obey one command at a time: connecting is begun by a, whose peer b accepts,
    // and so on round.
    for index in 0..3 {
        let next = (index + 1) % 3;
        let (from, to) = (agents[index].0, agents[next].0);
        agents[index].1.send_command(Command::Connect { peer: to.into() });
        agents[next].1.send_command(Command::Accept { peer: from.into() });
    }
    for index in [0, 1, 1, 2, 2, 0] {
        agents[index].1.receive_reply(PATIENCE).expect("connected both ways");
    }
    for (_, agent) in &mut agents {
        let stats: Value = agent.get(Command::Stats);
        let states: Vec<&str> = stats["peers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|peer| peer["state"].as_str().unwrap())
            .collect();
        assert_eq!(states, ["up", "up"], "{stats}");
    }
}

#[test]
fn a_name_that_is_taken_or_unknown_is_an_error() {
    let (mut left, mut right) = (agent("left"), agent("right"));
    let conn_info: Vec<u8> = right.get(Command::Listen);
    let refuse = |agent: &mut Agent, command, kind: &str| {
        let failure = agent.ask(command).unwrap_err().failure();
        assert_eq!(failure.kind, kind, "{failure:?}");
        failure.text
    };
    let text = refuse(&mut left, Command::Connect { peer: "right".into() }, "UnknownPeer");
    assert!(text.contains("right"), "{text}");
    refuse(&mut left, Command::Transfer { peer: "unknown".into() }, "UnknownPeer");
    refuse(&mut left, Command::Accept { peer: "right".into() }, "PeerState");
    left.run(Command::Load { peer: "right".into(), conn_info: conn_info.clone() });
    left.send_command(Command::Connect { peer: "right".into() });
    right.run(Command::Accept { peer: "left".into() });
    left.receive_reply(PATIENCE).expect("connected");
    let text = refuse(&mut left, Command::Connect { peer: "right".into() }, "PeerState");
    assert!(text.contains("disconnect it first"), "{text}");
    refuse(&mut right, Command::Accept { peer: "left".into() }, "PeerState");
    // A session cannot connect to itself.
    let own: Vec<u8> = left.get(Command::Listen);
    left.run(Command::Load { peer: "mirror".into(), conn_info: own });
    let text = refuse(&mut left, Command::Connect { peer: "mirror".into() }, "Handshake");
    assert!(text.contains("own connection info"), "{text}");
}

#[test]
fn different_channel_counts_and_chunks_agree_on_the_smaller() {
    let start = |channels, chunk_bytes| {
        let mut agent = peers_to_run::agent();
        agent.run(Command::New(Options {
            channels: Some(channels),
            chunk_bytes: Some(chunk_bytes),
            ..Options::default()
        }));
        agent
    };
    let (mut left, mut right) = (start(5, 65_536), start(3, 262_144));
    let conn_info: Vec<u8> = right.get(Command::Listen);
    left.run(Command::Load { peer: "right".into(), conn_info });
    left.send_command(Command::Connect { peer: "right".into() });
    right.run(Command::Accept { peer: "left".into() });
    left.receive_reply(PATIENCE).expect("connected");
    for agent in [&mut left, &mut right] {
        let stats: Value = agent.get(Command::Stats);
        let peer = &stats["peers"][0];
        assert_eq!(peer["channels"].as_array().unwrap().len(), 3);
        assert_eq!(peer["chunk_bytes"], 65_536);
    }
}

#[test]
fn a_goodbye_right_after_connecting_reaches_a_slower_peer() {
    let (mut left, mut right) = (agent("left"), agent("right"));
    let conn_info: Vec<u8> = right.get(Command::Listen);
    left.run(Command::Load { peer: "right".into(), conn_info });
    for _ in 0..20 {
        // Neither end waits for the other: left may say goodbye while right still connects its
        // comms, and the other way round.
        left.send_command(Command::Connect { peer: "right".into() });
        left.send_command(Command::Disconnect { peer: "right".into() });
        right.send_command(Command::Accept { peer: "left".into() });
        right.send_command(Command::Disconnect { peer: "left".into() });
        for agent in [&mut left, &mut right] {
            agent.receive_reply(PATIENCE).expect("connected");
            agent.receive_reply(PATIENCE).expect("parted");
        }
    }
}
