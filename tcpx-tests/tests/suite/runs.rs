//! Small messages that share chunks: each of them is still a message of its own.

use std::time::Duration;

use serde_json::{Value, json};
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Pair, Side};

use crate::peers_to_run;

const MESSAGES: u64 = 300;

fn pair() -> Pair {
    let start = || peers_to_run::agent();
    // A transfer that has failed is waited for no more, and its other messages go on.
    let options = || Options { progress_thread: true, ..Options::default() };
    Pair::connect(start(), start(), options(), options())
}

/// Bytes of a message: some are empty, few are alike.
fn size(index: u64) -> u64 {
    if index % 50 == 7 { 0 } else { 1 + index * 37 % 3000 }
}

/// Messages of a pair, one behind the other, taken in the order of `order`.
fn layout(order: &[u64]) -> Vec<u64> {
    let mut offsets = vec![0; order.len()];
    let mut end = 0;
    for &index in order {
        offsets[index as usize] = end;
        end += size(index);
    }
    offsets
}

fn posts(memory: u64, offsets: &[u64]) -> Vec<PostSpec> {
    let of = |(index, &offset): (u64, &u64)| PostSpec {
        memory,
        offset,
        bytes: size(index),
        tag: index as i64 % 5,
    };
    (0..).zip(offsets).map(of).collect()
}

fn fill(pair: &mut Pair, memory: u64, posts: &[PostSpec]) {
    for (seed, post) in (0u64..).zip(posts) {
        let PostSpec { offset, bytes, .. } = *post;
        pair.left.run(Command::Fill { memory, offset, bytes, seed });
    }
}

fn verify(pair: &mut Pair, memory: u64, posts: &[PostSpec]) {
    for (seed, post) in (0u64..).zip(posts) {
        let PostSpec { offset, bytes, .. } = *post;
        let verify = Command::Verify { memory, offset, bytes, seed };
        let difference: Value = pair.right.get(verify);
        assert_eq!(difference, Value::Null, "message {seed}, {bytes} bytes");
    }
}

fn received(pair: &mut Pair) -> Value {
    let stats: Value = pair.right.get(Command::Stats);
    stats["peers"][0].clone()
}

fn chunks(peer: &Value) -> u64 {
    let channels = peer["channels"].as_array().unwrap();
    channels.iter().map(|channel| channel["recv"]["chunks"].as_u64().unwrap()).sum()
}

#[test]
fn every_message_arrives_in_its_own_place() {
    let mut pair = pair();
    let in_order: Vec<u64> = (0..MESSAGES).collect();
    let backwards: Vec<u64> = in_order.iter().rev().copied().collect();
    let bytes = in_order.iter().map(|index| size(*index)).sum();
    for (memory, order, share) in [
        (Memory::Device, &in_order, true),
        (Memory::Device, &backwards, true),
        (Memory::Host, &in_order, true),
        (Memory::Host, &backwards, false),
    ] {
        let (left, right) = pair.allocate(bytes, memory);
        let sends = posts(left, &layout(&in_order));
        let receives = posts(right, &layout(order));
        fill(&mut pair, left, &sends);
        let before = received(&mut pair);
        let receive = pair.post(Side::Right, false, receives.clone());
        let send = pair.post(Side::Left, true, sends);
        pair.wait_both(send, receive);
        verify(&mut pair, right, &receives);
        let counts: Value = pair.right.get(Command::Counts { transfer: receive });
        let full = MESSAGES - MESSAGES / 50;
        assert_eq!(counts, json!([MESSAGES, MESSAGES, full, full]), "each one counts");
        let after = received(&mut pair);
        let messages = after["messages_received"].as_u64().unwrap()
            - before["messages_received"].as_u64().unwrap();
        let chunks = chunks(&after) - chunks(&before);
        assert_eq!(messages, MESSAGES);
        assert_eq!(chunks < full, share, "{chunks} chunks for {memory:?}");
    }
    pair.disconnect();
}

#[test]
fn one_that_does_not_fit_fails_alone() {
    let mut pair = pair();
    let in_order: Vec<u64> = (0..20).collect();
    let (left, right) = pair.allocate(40_000, Memory::Device);
    let sends = posts(left, &layout(&in_order));
    fill(&mut pair, left, &sends);
    let mut receives = posts(right, &layout(&in_order));
    receives[10].bytes -= 1;
    let odd = receives.remove(10);
    let others = receives.split_off(10);
    let first = pair.post(Side::Right, false, receives.clone());
    let alone = pair.post(Side::Right, false, vec![odd]);
    let rest = pair.post(Side::Right, false, others.clone());
    let send = pair.post(Side::Left, true, sends);
    let (sent, received) = pair.wait_replies(send, alone, Duration::from_secs(60));
    for reply in [sent, received] {
        assert_eq!(reply.unwrap_err().failure().kind, "SizeMismatch");
    }
    for transfer in [first, rest] {
        pair.right.run(Command::Wait { transfer, timeout_ms: PATIENCE_MS });
    }
    for (seed, PostSpec { offset, bytes, .. }) in (0u64..10).zip(receives).chain((11..).zip(others))
    {
        let difference: Value =
            pair.right.get(Command::Verify { memory: right, offset, bytes, seed });
        assert_eq!(difference, Value::Null, "message {seed}");
    }
    pair.disconnect();
}
