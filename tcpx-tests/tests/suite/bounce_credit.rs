//! Bounce buffers that hold hardly more than one chunk of each channel, with credit. Over a plugin
//! that takes pages as bytes come, as the original does (`TCPX_SOFT_ORIGINAL=piecemeal`), transfers
//! would stand still without.

use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Pair, Side};

use crate::peers_to_run;

const CHUNK: u64 = 64 << 10;
/// Of a chunk in the worst case: 16 full ones, one more for those that are not, two at its ends.
const CHUNK_PAGES: u64 = 19;

/// Returns a process whose bounce buffer holds `chunks` chunks.
fn agent(chunks: u64) -> Agent {
    let bytes = chunks * CHUNK_PAGES * 4096;
    peers_to_run::agent_with(&[
        ("TCPX_SOFT_POOL_BYTES", &bytes.to_string()),
        ("NCCL_DYNAMIC_CHUNK_SIZE", &CHUNK.to_string()),
        // Chunks of one comm come at the same time, each on a socket of its own.
        ("NCCL_NSOCKS_PERTHREAD", "4"),
    ])
}

fn options(channels: u16) -> Options {
    Options {
        channels: Some(channels),
        chunk_bytes: Some(CHUNK as u32),
        bounce_credit: true,
        progress_thread: true,
        ..Options::default()
    }
}

fn whole(memory: u64, bytes: u64) -> Vec<PostSpec> {
    vec![PostSpec { memory, offset: 0, bytes, tag: 1 }]
}

fn verify(agent: &mut Agent, memory: u64, bytes: u64, seed: u64) {
    let difference: Value = agent.get(Command::Verify { memory, offset: 0, bytes, seed });
    assert_eq!(difference, Value::Null, "{bytes} bytes");
}

/// Moves a large message each way at once.
fn exchange(pair: &mut Pair, bytes: u64) {
    let (out, back) = (pair.allocate(bytes, Memory::Device), pair.allocate(bytes, Memory::Device));
    pair.left.run(Command::Fill { memory: out.0, offset: 0, bytes, seed: 1 });
    pair.right.run(Command::Fill { memory: back.1, offset: 0, bytes, seed: 2 });
    let sent = pair.post(Side::Left, true, whole(out.0, bytes));
    let received = pair.post(Side::Right, false, whole(out.1, bytes));
    let sent_back = pair.post(Side::Right, true, whole(back.1, bytes));
    let received_back = pair.post(Side::Left, false, whole(back.0, bytes));
    pair.wait_both(sent, received);
    pair.wait_both(received_back, sent_back);
    verify(&mut pair.right, out.1, bytes, 1);
    verify(&mut pair.left, back.0, bytes, 2);
}

#[test]
fn eight_channels_move_though_the_buffer_holds_one_chunk_of_each() {
    move_through(&[(8, 8)]);
}

#[test]
#[ignore = "deep: one channel, and sixteen"]
fn every_channel_moves_though_the_buffer_holds_one_chunk_of_each() {
    move_through(&[(1, 1), (8, 8), (16, 21)]);
}

/// Channels, and chunks that the buffer holds.
fn move_through(buffers: &[(u16, u64)]) {
    for &(channels, chunks) in buffers {
        let options = options(channels);
        let mut pair = Pair::connect(agent(chunks), agent(chunks), options.clone(), options);
        exchange(&mut pair, 200 * CHUNK + 1);
        for side in [Side::Left, Side::Right] {
            let stats: Value = pair.end(side).0.get(Command::Stats);
            let waits = stats["total"]["send"]["credit_waits"].as_u64().expect("a count");
            assert!(waits > 0, "{stats}");
            assert_eq!(stats["alarms"], Value::Array(Vec::new()));
        }
        pair.disconnect();
    }
}

#[test]
fn small_messages_that_share_chunks_wait_for_credit_too() {
    const MESSAGES: u64 = 2000;
    const BYTES: u64 = 3000;
    let mut pair = Pair::connect(agent(3), agent(3), options(2), options(2));
    let (left, right) = pair.allocate(2 * MESSAGES * BYTES, Memory::Device);
    // Sends lie apart, so that they are gathered.
    let posts = |memory, step: u64| {
        (0..MESSAGES)
            .map(|index| PostSpec { memory, offset: step * index, bytes: BYTES, tag: 1 })
            .collect()
    };
    for index in 0..MESSAGES {
        let (offset, seed) = (2 * BYTES * index, index);
        pair.left.run(Command::Fill { memory: left, offset, bytes: BYTES, seed });
    }
    let received = pair.post(Side::Right, false, posts(right, BYTES));
    let sent = pair.post(Side::Left, true, posts(left, 2 * BYTES));
    pair.wait_both(sent, received);
    for index in 0..MESSAGES {
        let (offset, seed) = (BYTES * index, index);
        let verify = Command::Verify { memory: right, offset, bytes: BYTES, seed };
        assert_eq!(pair.right.get::<Value>(verify), Value::Null, "message {index}");
    }
    let stats: Value = pair.left.get(Command::Stats);
    assert!(stats["total"]["send"]["gathered"].as_u64() > Some(0), "{stats}");
    pair.disconnect();
}

/// Connects a peer to the hub, or says why not.
fn join(hub: &mut Agent, conn_info: &[u8], name: &str) -> Result<Agent, String> {
    let mut peer = agent(4);
    peer.run(Command::New(Options { name: Some(name.into()), ..options(2) }));
    peer.run(Command::Load { peer: "hub".into(), conn_info: conn_info.to_vec() });
    peer.send_command(Command::Connect { peer: "hub".into() });
    match peer.receive_reply(PATIENCE) {
        Ok(_) => {
            hub.run(Command::Accept { peer: name.into() });
            Ok(peer)
        }
        Err(refusal) => Err(refusal.failure().text),
    }
}

#[test]
fn peers_share_one_buffer_and_the_one_too_many_is_refused_with_the_numbers() {
    const BYTES: u64 = 40 * CHUNK;
    let mut hub = agent(9);
    hub.run(Command::New(options(2)));
    let conn_info: Vec<u8> = hub.get(Command::Listen);
    let names = ["a", "b", "c", "d"];
    let mut peers = names.map(|name| join(&mut hub, &conn_info, name).expect("it has a place"));

    let refused = join(&mut hub, &conn_info, "e").map(drop).expect_err("nine chunks are there");
    let page = 4096;
    let numbers = [
        format!("bounce buffer of {} bytes", 9 * CHUNK_PAGES * page),
        format!("2 channels with chunks of {CHUNK} bytes"),
        format!("may take {} bytes", 2 * CHUNK_PAGES * page),
        format!("8 channels of other peers {}", 8 * CHUNK_PAGES * page),
        "[TCPX-511]".to_owned(),
    ];
    for words in numbers {
        assert!(refused.contains(&words), "{words}: {refused}");
    }

    let mut waits = Vec::new();
    for (name, peer) in names.iter().zip(&mut peers) {
        let seed = u64::from(name.as_bytes()[0]);
        let allocate = Command::Allocate { bytes: BYTES, memory: Memory::Device };
        let (from, to): (u64, u64) = (peer.get(allocate.clone()), hub.get(allocate));
        peer.run(Command::Fill { memory: from, offset: 0, bytes: BYTES, seed });
        let received: usize = hub.get(Command::Transfer { peer: (*name).into() });
        hub.run(Command::Receive { transfer: received, posts: whole(to, BYTES) });
        let sent: usize = peer.get(Command::Transfer { peer: "hub".into() });
        peer.run(Command::Send { transfer: sent, posts: whole(from, BYTES) });
        waits.push((seed, to, sent, received));
    }
    for (peer, (seed, to, sent, received)) in peers.iter_mut().zip(waits) {
        hub.run(Command::Wait { transfer: received, timeout_ms: PATIENCE_MS });
        peer.run(Command::Wait { transfer: sent, timeout_ms: PATIENCE_MS });
        verify(&mut hub, to, BYTES, seed);
    }

    let [first, others @ ..] = &mut peers;
    first.send_command(Command::Disconnect { peer: "hub".into() });
    hub.run(Command::Disconnect { peer: "a".into() });
    first.receive_reply(PATIENCE).expect("they part");
    let newcomer = join(&mut hub, &conn_info, "e").expect("what the first had is free");
    drop((newcomer, others));
}
