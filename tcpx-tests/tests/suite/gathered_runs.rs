//! Small messages with scattered sends. They are gathered, and each of them is still a message of
//! its own.

use std::time::Instant;

use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Agent, Pair, Side};

use crate::peers_to_run;

const MESSAGES: u64 = 300;
const CHUNK_BYTES: u32 = 64 << 10;
/// Half of the messages fit it, with their gaps.
const REGISTRATION_BYTES: u64 = 2 << 20;

fn pair(options: Options) -> Pair {
    pair_with(peers_to_run::agent(), options)
}

fn pair_with(left: Agent, options: Options) -> Pair {
    let options = Options { chunk_bytes: Some(CHUNK_BYTES), ..options };
    Pair::connect(left, peers_to_run::agent(), options.clone(), options)
}

/// Bytes of a message: most are small, some empty, a few longer than what is gathered, two longer
/// than a chunk.
fn mixed(index: u64) -> u64 {
    match index {
        50 | 151 => 3 * u64::from(CHUNK_BYTES) + index,
        _ if index % 50 == 7 => 0,
        _ if index % 60 == 9 => 40_000,
        _ => 1 + index * 37 % 3000,
    }
}

fn small(index: u64) -> u64 {
    1 + index * 37 % 3000
}

/// Messages laid into two registrations at odd places, in the order of `step`, which is prime to
/// their number: four neighbours, then a gap and the other registration.
fn scatter(memories: [u64; 2], step: u64, size: fn(u64) -> u64) -> Vec<PostSpec> {
    let mut ends = [1, 3];
    let nowhere = PostSpec { memory: 0, offset: 0, bytes: 0, tag: 0 };
    let mut posts = vec![nowhere; MESSAGES as usize];
    for place in 0..MESSAGES {
        let index = place * step % MESSAGES;
        let which = (place / 4 % 2) as usize;
        let (memory, offset, bytes) = (memories[which], ends[which], size(index));
        posts[index as usize] = PostSpec { memory, offset, bytes, tag: index as i64 % 5 };
        ends[which] += bytes + if place % 4 == 3 { 1 + index % 3 } else { 0 };
    }
    assert!(ends.iter().all(|end| *end <= REGISTRATION_BYTES), "{ends:?}");
    posts
}

/// Neighbours in one registration.
fn adjacent(memory: u64) -> Vec<PostSpec> {
    let mut end = 0;
    let mut post = |index: u64| {
        let (offset, bytes) = (end, small(index));
        end += bytes;
        PostSpec { memory, offset, bytes, tag: index as i64 % 5 }
    };
    (0..MESSAGES).map(&mut post).collect()
}

fn fill(agent: &mut Agent, posts: &[PostSpec], seed: u64) {
    for (at, post) in (seed..).zip(posts) {
        let PostSpec { memory, offset, bytes, .. } = *post;
        agent.run(Command::Fill { memory, offset, bytes, seed: at });
    }
}

fn verify(agent: &mut Agent, posts: &[PostSpec], seed: u64) {
    for (at, post) in (seed..).zip(posts) {
        let PostSpec { memory, offset, bytes, .. } = *post;
        let difference: Value = agent.get(Command::Verify { memory, offset, bytes, seed: at });
        assert_eq!(difference, Value::Null, "message {at}, {bytes} bytes");
    }
}

fn allocate(agent: &mut Agent, memory: Memory) -> [u64; 2] {
    [(); 2].map(|()| agent.get(Command::Allocate { bytes: REGISTRATION_BYTES, memory }))
}

#[test]
fn scattered_messages_of_every_size_arrive_both_ways_at_once() {
    for (channels, send_window) in [(1, 1), (3, 12)] {
        let (channels, send_window) = (Some(channels), Some(send_window));
        let mut pair = pair(Options { channels, send_window, ..Options::default() });
        for memory in [Memory::Device, Memory::Host] {
            let [left, right] = [Side::Left, Side::Right].map(|side| {
                let agent = pair.end(side).0;
                (allocate(agent, memory), allocate(agent, memory))
            });
            // Stretches of four there, single messages back.
            let there = (scatter(left.0, 1, mixed), scatter(right.1, 11, mixed));
            let back = (scatter(right.0, 7, mixed), scatter(left.1, 11, mixed));
            fill(&mut pair.left, &there.0, 0);
            fill(&mut pair.right, &back.0, MESSAGES);
            let receive_there = pair.post(Side::Right, false, there.1.clone());
            let send_there = pair.post(Side::Left, true, there.0);
            let send_back = pair.post(Side::Right, true, back.0);
            let receive_back = pair.post(Side::Left, false, back.1.clone());
            pair.wait_both(send_there, receive_there);
            pair.wait_both(receive_back, send_back);
            verify(&mut pair.right, &there.1, 0);
            verify(&mut pair.left, &back.1, MESSAGES);
        }
        pair.disconnect();
    }
}

/// Waits until left knows of `count` receives, so that its next posts are matched in one call.
fn wait_for_receives(pair: &mut Pair, count: u64) {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        pair.right.run(Command::Progress { time_ms: 1 });
        pair.left.run(Command::Progress { time_ms: 1 });
        let stats: Value = pair.left.get(Command::Stats);
        if stats["peers"][0]["announced"] == count {
            return;
        }
        assert!(Instant::now() < give_up_at, "left does not know of the receives: {stats}");
    }
}

/// What left has sent so far: requests, chunks that were gathered, and their bytes.
fn sent(pair: &mut Pair) -> [u64; 3] {
    let stats: Value = pair.left.get(Command::Stats);
    ["posts", "gathered", "gathered_bytes"]
        .map(|number| stats["total"]["send"][number].as_u64().expect("it is counted"))
}

/// Moves small messages from scattered places of `memory` to where `receives` says. What that took,
/// as `sent` counts it.
fn cost(
    pair: &mut Pair,
    memory: Memory,
    receives: impl FnOnce([u64; 2]) -> Vec<PostSpec>,
) -> [u64; 3] {
    let sends = scatter(allocate(&mut pair.left, memory), 7, small);
    let receives = receives(allocate(&mut pair.right, memory));
    fill(&mut pair.left, &sends, 0);
    let before = sent(pair);
    let receive = pair.post(Side::Right, false, receives.clone());
    wait_for_receives(pair, MESSAGES);
    let send = pair.post(Side::Left, true, sends);
    pair.wait_both(send, receive);
    verify(&mut pair.right, &receives, 0);
    let after = sent(pair);
    [0, 1, 2].map(|at| after[at] - before[at])
}

/// Chunks that the small messages fill, one after the other.
fn chunks() -> u64 {
    let mut chunks = 1;
    (0..MESSAGES).map(small).fold(0, |filled, bytes| {
        if filled + bytes <= u64::from(CHUNK_BYTES) {
            return filled + bytes;
        }
        chunks += 1;
        bytes
    });
    chunks
}

#[test]
fn a_request_carries_a_chunk_of_scattered_messages() {
    let bytes = (0..MESSAGES).map(small).sum();
    let scattered = |memories| scatter(memories, 11, small);
    let mut gathering = pair(Options::default());
    assert_eq!(cost(&mut gathering, Memory::Device, scattered), [chunks(), chunks(), bytes]);
    let neighbours = |memories: [u64; 2]| adjacent(memories[0]);
    assert_eq!(cost(&mut gathering, Memory::Host, neighbours), [chunks(), chunks(), bytes]);
    // What is received in place cannot be unpacked.
    assert_eq!(cost(&mut gathering, Memory::Host, scattered), [MESSAGES, 0, 0]);
    gathering.disconnect();

    let mut alone = pair(Options { gather: Some(false), ..Options::default() });
    assert_eq!(cost(&mut alone, Memory::Device, scattered), [MESSAGES, 0, 0]);
    alone.disconnect();
}

#[test]
fn without_a_staging_buffer_each_goes_by_itself() {
    let refused = |channels| {
        // The first memory that is registered is the staging buffer.
        let left = peers_to_run::agent_with(&[("TCPX_SOFT_FAULTS", "rc:regMr@1=3")]);
        pair_with(left, Options { channels: Some(channels), ..Options::default() })
    };
    let scattered = |memories| scatter(memories, 11, small);
    let mut pair = refused(1);
    for memory in [Memory::Device, Memory::Host] {
        assert_eq!(cost(&mut pair, memory, scattered), [MESSAGES, 0, 0]);
    }
    pair.disconnect();
    // One channel of two has none, and the other one gathers.
    let mut pair = refused(2);
    let [chunks, gathered, _] = cost(&mut pair, Memory::Device, scattered);
    assert!((1..chunks).contains(&gathered) && chunks < MESSAGES, "{gathered} of {chunks}");
    pair.disconnect();
}
