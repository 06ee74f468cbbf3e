//! Large chunks in a bounce buffer that is small, or in packets that are.

use serde_json::Value;
use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Agent, Pair, Side, has_gpu};

use super::combination::{agent, end_all, options, slow_agent};

const CHUNK: u32 = 512 << 10;
/// Bytes of more chunks than ever lie in the bounce buffer at once, and of a part of one.
const BYTES: u64 = (12 << 20) + 5;

fn large_chunks() -> Options {
    Options { channels: Some(2), chunk_bytes: Some(CHUNK), ..options(0, "kernel") }
}

fn whole(memory: u64) -> Vec<PostSpec> {
    vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 1 }]
}

/// Moves a message each way at once, and ends.
fn exchange(mut pair: Pair) {
    let (there, back) =
        (pair.allocate(BYTES, Memory::Device), pair.allocate(BYTES, Memory::Device));
    let fill = |memory, seed| Command::Fill { memory, offset: 0, bytes: BYTES, seed };
    pair.left.run(fill(there.0, 1));
    pair.right.run(fill(back.1, 2));
    let received = pair.post(Side::Right, false, whole(there.1));
    let received_back = pair.post(Side::Left, false, whole(back.0));
    let sent = pair.post(Side::Left, true, whole(there.0));
    let sent_back = pair.post(Side::Right, true, whole(back.1));
    pair.wait_both(sent, received);
    pair.wait_both(received_back, sent_back);
    let differs = |agent: &mut Agent, memory, seed| {
        let verify = Command::Verify { memory, offset: 0, bytes: BYTES, seed };
        assert_eq!(agent.get::<Value>(verify), Value::Null);
    };
    differs(&mut pair.right, there.1, 1);
    differs(&mut pair.left, back.0, 2);
    end_all(vec![pair.left, pair.right]);
}

/// Returns two processes, each with a bounce buffer of `bounce_bytes`.
fn agents(bounce_bytes: u64) -> [Agent; 2] {
    let bytes = bounce_bytes.to_string();
    let start = || agent(&[("TCPX_SOFT_POOL_BYTES", &bytes), ("NCCL_NSOCKS_PERTHREAD", "4")]);
    [start(), start()]
}

/// A chunk of each of two channels may take 830 pages at most, which is 3.2 MiB.
#[test]
fn a_buffer_for_hardly_more_than_a_chunk_of_each_channel_suffices() {
    if has_gpu() {
        let [left, right] = agents(7 << 19);
        exchange(Pair::connect(left, right, large_chunks(), large_chunks()));
    }
}

#[test]
fn a_buffer_for_less_is_refused() {
    if !has_gpu() {
        return;
    }
    let [left, right] = agents(CHUNK.into());
    let mut pair = Pair { left, right };
    for agent in [&mut pair.left, &mut pair.right] {
        agent.run(Command::New(large_chunks()));
    }
    let (left, right) = pair.join("left", "right").expect_err("there is no room");
    for reply in [left, right] {
        let failure = reply.expect_err("both ends know").failure();
        assert!(failure.text.contains("[TCPX-511]"), "{failure:?}");
    }
    end_all(vec![pair.left, pair.right]);
}

/// With all of the original's waiting, too.
#[test]
fn a_chunk_may_come_in_small_packets() {
    if has_gpu() {
        let start = || slow_agent(&[("TCPX_SOFT_PACKET_BYTES", "1448")]);
        exchange(Pair::connect(start(), start(), large_chunks(), large_chunks()));
    }
}
