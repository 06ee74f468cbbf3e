//! Transfers between two processes: sizes, kinds of memory, order, direction, tags.

use std::time::Duration;

use serde_json::{Value, json};
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Pair, Refusal, Side};

use crate::peers_to_run;

fn pair(options: &Options) -> Pair {
    let start = || peers_to_run::agent();
    Pair::connect(start(), start(), options.clone(), options.clone())
}

fn small_chunks() -> Options {
    Options { chunk_bytes: Some(4096), ..Options::default() }
}

fn verified(agent: &mut Agent, memory: u64, offset: u64, bytes: u64, seed: u64) {
    let difference: Value = agent.get(Command::Verify { memory, offset, bytes, seed });
    assert_eq!(difference, Value::Null, "first difference, offset {offset}, {bytes} bytes");
}

/// Sends one message each way and checks every byte.
fn exchange(pair: &mut Pair, bytes: u64, offset: u64, memory: (Memory, Memory)) {
    let left: u64 =
        pair.left.get(Command::Allocate { bytes: bytes + offset + 1, memory: memory.0 });
    let right: u64 =
        pair.right.get(Command::Allocate { bytes: bytes + offset + 1, memory: memory.1 });
    for from_left in [true, false] {
        let (seed, tag) = (bytes ^ u64::from(from_left), 7);
        let (sender, receiver) =
            if from_left { (Side::Left, Side::Right) } else { (Side::Right, Side::Left) };
        let id = |side| if side == Side::Left { left } else { right };
        pair.end(sender).0.run(Command::Fill { memory: id(sender), offset, bytes, seed });
        let post = |side| vec![PostSpec { memory: id(side), offset, bytes, tag }];
        let receive = pair.post(receiver, false, post(receiver));
        let send = pair.post(sender, true, post(sender));
        if from_left {
            pair.wait_both(send, receive)
        } else {
            pair.wait_both(receive, send)
        }
        verified(pair.end(receiver).0, id(receiver), offset, bytes, seed);
    }
    pair.left.run(Command::Deregister { memory: left });
    pair.right.run(Command::Deregister { memory: right });
}

#[test]
fn every_size_arrives_whole_in_both_directions() {
    let mut pair = pair(&small_chunks());
    for bytes in [0, 1, 4095, 4096, 4097, 8192, 65_536, 100_003] {
        exchange(&mut pair, bytes, 0, (Memory::Device, Memory::Device));
        exchange(&mut pair, bytes, 0, (Memory::Host, Memory::Host));
    }
    exchange(&mut pair, 50_000, 13, (Memory::Host, Memory::Device));
    exchange(&mut pair, 50_000, 4099, (Memory::Device, Memory::Host));
    exchange(&mut pair, 50_000, 8, (Memory::Device, Memory::Device));
    pair.disconnect();
}

#[test]
fn default_chunks_and_many_channels() {
    let mut pair = pair(&Options { channels: Some(4), ..Options::default() });
    exchange(&mut pair, 10_000_019, 0, (Memory::Device, Memory::Device));
    exchange(&mut pair, 10_000_019, 1, (Memory::Host, Memory::Host));
    let stats: Value = pair.right.get(Command::Stats);
    let channels = stats["peers"][0]["channels"].as_array().unwrap();
    assert_eq!(channels.len(), 4);
    for channel in channels {
        assert!(channel["recv"]["chunks"].as_u64().unwrap() >= 4, "round robin: {stats}");
    }
    pair.disconnect();
}

#[test]
fn any_posting_order_matches_by_tag_and_equal_tags_in_order() {
    let mut pair = pair(&small_chunks());
    let (left, right) = pair.allocate(64_000, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes: 64_000, seed: 5 });
    let post =
        |memory, index: u64, tag| PostSpec { memory, offset: index * 8_000, bytes: 8_000, tag };
    // Sends before receives and receives before sends, tags in another order on each end; tag 1 is
    // used twice.
    let first = vec![post(right, 4, 4), post(right, 1, 1), post(right, 0, 0)];
    let receive_early = pair.post(Side::Right, false, first);
    let sends = [0, 1, 2, 3, 4, 5]
        .map(|index| post(left, index, if index == 5 { 1 } else { index as i64 }));
    let send = pair.post(Side::Left, true, sends.to_vec());
    let rest = vec![post(right, 5, 1), post(right, 3, 3), post(right, 2, 2)];
    let receive_late = pair.post(Side::Right, false, rest);
    pair.wait_both(send, receive_early);
    pair.right.run(Command::Wait { transfer: receive_late, timeout_ms: PATIENCE_MS });
    verified(&mut pair.right, right, 0, 48_000, 5);
    pair.disconnect();
}

#[test]
fn a_size_mismatch_fails_both_ends_and_the_next_transfer_works() {
    // A send that goes ahead is done before its size is seen not to fit.
    let mut pair = pair(&Options { eager_bytes: Some(0), ..small_chunks() });
    let (left, right) = pair.allocate(20_000, Memory::Device);
    for (send_bytes, recv_bytes, receive_first) in
        [(9_000, 8_000, true), (8_000, 9_000, false), (0, 5, true), (5, 0, false)]
    {
        let send = vec![PostSpec { memory: left, offset: 0, bytes: send_bytes, tag: 3 }];
        let receive = vec![PostSpec { memory: right, offset: 0, bytes: recv_bytes, tag: 3 }];
        let (send, receive) = if receive_first {
            let receive = pair.post(Side::Right, false, receive);
            (pair.post(Side::Left, true, send), receive)
        } else {
            (pair.post(Side::Left, true, send), pair.post(Side::Right, false, receive))
        };
        let (left, right) = pair.wait_replies(send, receive, PATIENCE);
        for reply in [left, right] {
            let failure = reply.unwrap_err().failure();
            assert_eq!(failure.kind, "SizeMismatch");
            let words = format!("sender posted {send_bytes} bytes, receiver {recv_bytes}");
            assert!(failure.text.contains(&words), "{}", failure.text);
        }
    }
    exchange(&mut pair, 12_345, 0, (Memory::Device, Memory::Device));
    pair.disconnect();
}

#[test]
fn ten_thousand_chunks_outstanding_through_one_channel() {
    let options = Options { channels: Some(1), ..small_chunks() };
    let mut pair = pair(&options);
    let bytes = 10_000 * 4096;
    let (left, right) = pair.allocate(bytes, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes, seed: 77 });
    let post = |memory| vec![PostSpec { memory, offset: 0, bytes, tag: 0 }];
    let receive = pair.post(Side::Right, false, post(right));
    let send = pair.post(Side::Left, true, post(left));
    pair.wait_both(send, receive);
    verified(&mut pair.right, right, 0, bytes, 77);
    let counts: Value = pair.right.get(Command::Counts { transfer: receive });
    assert_eq!(counts, json!([1, 1, 10_000, 10_000]));
    let stats: Value = pair.right.get(Command::Stats);
    let recv = &stats["peers"][0]["channels"][0]["recv"];
    assert!(
        recv["window_peak"].as_u64().unwrap() <= 16 && recv["window_full"].as_u64().unwrap() > 0,
        "{stats}"
    );
    pair.disconnect();
}

#[test]
fn a_batch_of_many_small_messages() {
    let mut pair = pair(&Options::default());
    let (count, bytes) = (20_000u64, 512u64);
    let (left, right) = pair.allocate(count * bytes, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes: count * bytes, seed: 9 });
    let posts = |memory| -> Vec<PostSpec> {
        (0..count)
            .map(|index| PostSpec { memory, offset: index * bytes, bytes, tag: index as i64 })
            .collect()
    };
    let receive = pair.post(Side::Right, false, posts(right));
    let send = pair.post(Side::Left, true, posts(left));
    pair.wait_both(send, receive);
    verified(&mut pair.right, right, 0, count * bytes, 9);
    pair.disconnect();
}

#[test]
fn one_end_may_leave_while_the_other_is_busy() {
    let mut pair = pair(&Options { progress_thread: true, ..Options::default() });
    exchange(&mut pair, 100_000, 0, (Memory::Device, Memory::Device));
    // Right sends nothing and calls nothing: its progress thread answers the goodbye.
    pair.left.run(Command::Disconnect { peer: "right".into() });
    let transfer = pair.right.ask(Command::Transfer { peer: "left".into() });
    let failure = transfer.unwrap_err().failure();
    assert_eq!(failure.kind, "PeerGone");
    assert!(failure.text.contains("goodbye"), "{}", failure.text);
    pair.right.run(Command::Disconnect { peer: "left".into() });
    pair.join("left", "right").expect("a peer may come back");
    exchange(&mut pair, 100_000, 0, (Memory::Device, Memory::Device));
    pair.disconnect();
}

#[test]
fn a_cancelled_receive_is_withdrawn_on_both_ends() {
    let mut pair = pair(&small_chunks());
    let (left, right) = pair.allocate(10_000, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes: 10_000, seed: 1 });
    let post = |memory| vec![PostSpec { memory, offset: 0, bytes: 10_000, tag: 4 }];
    let receive = pair.post(Side::Right, false, post(right));
    pair.right.run(Command::Cancel { transfer: receive });
    // Left must make progress to agree.
    pair.right.send_command(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS });
    let cancelled = loop {
        pair.left.run(Command::Progress { time_ms: 1 });
        match pair.right.receive_reply(Duration::ZERO) {
            Err(Refusal::Silent) => {}
            reply => break reply.unwrap_err().failure(),
        }
    };
    assert_eq!(cancelled.kind, "Cancelled");
    // A send of the same tag now waits for the next receive.
    let send = pair.post(Side::Left, true, post(left));
    let receive = pair.post(Side::Right, false, post(right));
    pair.wait_both(send, receive);
    verified(&mut pair.right, right, 0, 10_000, 1);
    pair.disconnect();
}

#[test]
fn posts_that_do_not_fit_are_refused_and_nothing_is_posted() {
    let mut pair = pair(&small_chunks());
    let (left, _) = pair.allocate(100, Memory::Device);
    let transfer: usize = pair.left.get(Command::Transfer { peer: "right".into() });
    let good = PostSpec { memory: left, offset: 0, bytes: 100, tag: 0 };
    for (bad, kind) in [
        (PostSpec { memory: 99, ..good }, "UnknownRegistration"),
        (PostSpec { offset: 1, ..good }, "Registration"),
        (PostSpec { bytes: u64::MAX, ..good }, "Registration"),
        (PostSpec { offset: u64::MAX, ..good }, "Registration"),
    ] {
        let reply = pair.left.ask(Command::Send { transfer, posts: vec![good, bad] });
        assert_eq!(reply.unwrap_err().failure().kind, kind);
    }
    let counts: Value = pair.left.get(Command::Counts { transfer });
    assert_eq!(counts, json!([0, 0, 0, 0]));
    pair.disconnect();
}
