//! Eight sessions, each connected with each.

use std::time::Instant;

use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Refusal, has_gpu};

use super::combination::{agent, assert_named, end_all, options};

const SESSIONS: usize = 8;
const BACKENDS: [&str; 3] = ["host", "d2d", "kernel"];
/// Many chunks, and a part of one.
const BYTES: u64 = 700_001;

fn name(session: usize) -> String {
    format!("session-{session}")
}

/// One message each way between two sessions, at one of them.
struct Exchange {
    peer: usize,
    received: u64,
    send: usize,
    receive: usize,
}

/// Returns the seed of a message's content, which depends on the sender and the receiver.
fn seed(from: usize, to: usize) -> u64 {
    (from * SESSIONS + to) as u64
}

fn one(memory: u64, tag: i64) -> PostSpec {
    PostSpec { memory, offset: 0, bytes: BYTES, tag }
}

/// Starts to send to and receive from `peer`, with each of the tags.
fn exchange(agent: &mut Agent, own: usize, peer: usize, tags: &[i64]) -> Exchange {
    let allocate = Command::Allocate { bytes: BYTES, memory: Memory::Device };
    let (source, received): (u64, u64) = (agent.get(allocate.clone()), agent.get(allocate));
    agent.run(Command::Fill { memory: source, offset: 0, bytes: BYTES, seed: seed(own, peer) });
    let create = Command::Transfer { peer: name(peer) };
    let (send, receive) = (agent.get(create.clone()), agent.get(create));
    let posts = |memory| tags.iter().map(|tag| one(memory, *tag)).collect();
    agent.run(Command::Receive { transfer: receive, posts: posts(received) });
    agent.run(Command::Send { transfer: send, posts: posts(source) });
    Exchange { peer, received, send, receive }
}

/// All of it arrives, as it was sent.
fn verify(agent: &mut Agent, own: usize, exchange: &Exchange) {
    for transfer in [exchange.receive, exchange.send] {
        agent.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    }
    let seed = seed(exchange.peer, own);
    let memory = exchange.received;
    let verify = Command::Verify { memory, offset: 0, bytes: BYTES, seed };
    assert_eq!(agent.get::<Value>(verify), Value::Null, "{} to {}", exchange.peer, own);
}

/// Sessions on all GPUs with all backends.
fn mesh() -> Vec<Agent> {
    let gpus = tcpx_core::gpu_count();
    let mut agents: Vec<Agent> = (0..SESSIONS).map(|_| agent(&[])).collect();
    for (session, agent) in agents.iter_mut().enumerate() {
        let options = options(session as u32 % gpus, BACKENDS[session % BACKENDS.len()]);
        agent.send_command(Command::New(Options { name: Some(name(session)), ..options }));
    }
    for agent in &mut agents {
        agent.receive_reply(PATIENCE).expect("a session");
    }
    // In each round every session meets one other, as in a tournament.
    let last = SESSIONS - 1;
    for round in 0..last {
        let partner = |place: usize| (round + place) % last;
        meet(&mut agents, round, last);
        for place in 1..SESSIONS / 2 {
            meet(&mut agents, partner(place), partner(last - place));
        }
        for agent in &mut agents {
            agent.receive_reply(PATIENCE).expect("connected");
        }
    }
    agents
}

/// Begins to connect two sessions.
fn meet(agents: &mut [Agent], from: usize, to: usize) {
    let conn_info: Vec<u8> = agents[to].get(Command::Listen);
    agents[from].run(Command::Load { peer: name(to), conn_info });
    agents[to].send_command(Command::Accept { peer: name(from) });
    agents[from].send_command(Command::Connect { peer: name(to) });
}

/// Runs the exchanges of every session with every other.
fn exchange_all(
    agents: &mut [Agent],
    tags: impl Fn(usize, usize) -> &'static [i64],
) -> Vec<Vec<Exchange>> {
    let each = agents.iter_mut().enumerate();
    each.map(|(own, agent)| {
        let peers = (0..SESSIONS).filter(|peer| *peer != own);
        peers.map(|peer| exchange(agent, own, peer, tags(own, peer))).collect()
    })
    .collect()
}

#[test]
fn eight_sessions_exchange_bytes_and_lose_one_of_them() {
    if !has_gpu() {
        return;
    }
    let mut agents = mesh();
    let exchanges = exchange_all(&mut agents, |_, _| &[1]);
    for (own, (agent, exchanges)) in agents.iter_mut().zip(&exchanges).enumerate() {
        exchanges.iter().for_each(|exchange| verify(agent, own, exchange));
    }

    // Of what the others have for it, the last one takes and gives the first half only.
    let lost = SESSIONS - 1;
    let with_lost = |own, peer| if own != lost && peer == lost { &[2, 3][..] } else { &[2] };
    let exchanges = exchange_all(&mut agents, with_lost);
    wait_until_it_flows(&mut agents[0], exchanges[0].last().expect("one with the last"));
    agents[lost].kill();
    agents.truncate(lost);
    for (own, (agent, exchanges)) in agents.iter_mut().zip(&exchanges).enumerate() {
        let (of_lost, others) = exchanges.split_last().expect("seven");
        for transfer in [of_lost.send, of_lost.receive] {
            let refusal = agent.ask(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
            let failure = refusal.map_err(Refusal::failure).expect_err("half of it never comes");
            assert_eq!(failure.kind, "PeerGone", "{failure:?}");
            assert_named(&failure);
        }
        others.iter().for_each(|exchange| verify(agent, own, exchange));
    }
    end_all(agents);
}

/// The first chunk of a transfer is done.
fn wait_until_it_flows(agent: &mut Agent, exchange: &Exchange) {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let counts: [u64; 4] = agent.get(Command::Counts { transfer: exchange.receive });
        if counts[3] > 0 {
            return;
        }
        assert!(Instant::now() < give_up_at, "nothing flows");
    }
}
