//! The software plugin fails on purpose, at every call: each failure is a typed error on the end
//! where it happens, an abort with the same words on the other, and the same two sessions connect
//! and work again afterwards.

use std::time::Duration;

use serde_json::Value;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS, PostSpec};
use tcpx_tests::{Agent, Pair, Reply, Side};

use crate::peers_to_run;

const BYTES: u64 = 3_000_000;

fn options() -> Options {
    Options { channels: Some(1), chunk_bytes: Some(65_536), ..Options::default() }
}

fn agent(faults: Option<&str>, shape: Option<&str>) -> Agent {
    let mut variables = vec![("TCPX_SOFT_POISON", "1"), ("TCPX_SOFT_SEED", "7")];
    variables.extend(faults.map(|faults| ("TCPX_SOFT_FAULTS", faults)));
    variables.extend(shape.map(|shape| ("TCPX_SOFT_SHAPE", shape)));
    peers_to_run::agent_with(&variables)
}

/// Two sessions that are not connected yet; the left one sends.
fn faulty_pair(left_faults: Option<&str>, right_faults: Option<&str>) -> Pair {
    let mut pair = Pair { left: agent(left_faults, None), right: agent(right_faults, None) };
    pair.left.run(Command::New(options()));
    pair.right.run(Command::New(options()));
    pair
}

fn transfer(pair: &mut Pair, memory: Memory, timeout: Duration) -> (Reply, Reply) {
    let (left, right) = pair.allocate(BYTES, memory);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes: BYTES, seed: 11 });
    let receive = pair.post(
        Side::Right,
        false,
        vec![PostSpec { memory: right, offset: 0, bytes: BYTES, tag: 1 }],
    );
    let send = pair.post(
        Side::Left,
        true,
        vec![PostSpec { memory: left, offset: 0, bytes: BYTES, tag: 1 }],
    );
    let replies = pair.wait_replies(send, receive, timeout);
    if replies.0.is_ok() && replies.1.is_ok() {
        let difference: Value =
            pair.right.get(Command::Verify { memory: right, offset: 0, bytes: BYTES, seed: 11 });
        assert_eq!(difference, Value::Null);
    }
    replies
}

/// The error names the call and its code at one end; the other end gets the same error.
fn assert_failed(call: &str, faulty: Reply, other: Reply) {
    let failure = faulty.expect_err(call).failure();
    assert_eq!(failure.kind, "Plugin", "{call}: {failure:?}");
    for words in [format!("plugin call {call} returned 2").as_str(), "channel "] {
        assert!(failure.text.contains(words), "{call}: {failure:?}");
    }
    if let Err(refusal) = other {
        let failure = refusal.failure();
        assert_eq!(failure.kind, "PeerGone", "{call}: {failure:?}");
        assert!(failure.text.contains("aborted"), "{call}: {failure:?}");
    }
}

fn recover(pair: &mut Pair) {
    // Each end's peer is over; taking leave of it is allowed and frees its name.
    let _ = pair.left.ask(Command::Disconnect { peer: "right".into() });
    let _ = pair.right.ask(Command::Disconnect { peer: "left".into() });
    pair.join("left", "right").expect("the fault happens once");
    let replies = transfer(pair, Memory::Device, PATIENCE);
    assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
    pair.disconnect();
}

#[test]
fn calls_of_the_connecting_phase() {
    for call in ["listen", "connect", "accept"] {
        let mut pair = faulty_pair(None, Some(&format!("rc:{call}@1=2")));
        let (left, right) = pair.join("left", "right").expect_err(call);
        assert_failed(call, right, left);
        recover(&mut pair);
    }
}

#[test]
fn calls_of_the_sending_end() {
    for (call, number) in [("regMr", 1), ("isend", 1), ("isend", 20), ("test", 5)] {
        // A passing error 2 from `test` is forgiven, so three in a row are needed.
        let numbers = if call == "test" { number..number + 3 } else { number..number + 1 };
        let faults: Vec<String> = numbers.map(|number| format!("rc:{call}@{number}=2")).collect();
        let mut pair = faulty_pair(Some(&faults.join(";")), None);
        pair.join("left", "right").expect("connecting is not disturbed");
        let (left, right) = transfer(&mut pair, Memory::Device, PATIENCE);
        assert_failed(call, left, right);
        recover(&mut pair);
    }
}

#[test]
fn an_idle_comm_that_dies() {
    // The sending comms are looked at first: channel 0's, then channel 1's.
    for (call, direction) in [(1, "during send"), (2, "during receive")] {
        let mut pair = faulty_pair(None, Some(&format!("rc:checkComm@{call}=2")));
        pair.join("left", "right").expect("connecting is not disturbed");
        let failure = pair.right.first_refusal(&Command::Transfer { peer: "left".into() });
        assert_eq!(failure.kind, "Plugin", "{failure:?}");
        for words in ["checkComm returned 2", direction, "channel 0", "NIC ", "[TCPX-732]"] {
            assert!(failure.text.contains(words), "{words}: {failure:?}");
        }
        let failure = pair.left.first_refusal(&Command::Transfer { peer: "right".into() });
        assert_eq!(failure.kind, "PeerGone", "{failure:?}");
        assert!(failure.text.contains("aborted"), "{failure:?}");
        recover(&mut pair);
    }
}

/// The sender's plugin reports bytes as sent that are not: no plugin notices.
#[test]
fn a_chunk_that_never_arrives() {
    // The last of its 46 chunks: one behind it would arrive in its place.
    let mut pair = Pair { left: agent(Some("lose:send@46"), None), right: agent(None, None) };
    pair.left.run(Command::New(options()));
    pair.right.run(Command::New(Options { peer_timeout_ms: Some(1_000), ..options() }));
    pair.join("left", "right").expect("connecting is not disturbed");
    let (left, right) = pair.allocate(BYTES, Memory::Device);
    let post = |memory| vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 1 }];
    let receive = pair.post(Side::Right, false, post(right));
    pair.right.send_command(Command::Wait { transfer: receive, timeout_ms: PATIENCE_MS });
    pair.post(Side::Left, true, post(left));
    // It is done for the sender, which goes on making progress.
    let sender_failure = pair.left.first_refusal(&Command::Transfer { peer: "right".into() });
    assert_eq!(sender_failure.kind, "PeerGone", "{sender_failure:?}");
    let failure = pair.right.receive_reply(2 * PATIENCE).expect_err("a chunk is missing").failure();
    assert_eq!(failure.kind, "PeerGone", "{failure:?}");
    for words in ["peer left", "during receive", "on channel 0", "[TCPX-732]"] {
        assert!(failure.text.contains(words), "{words}: {failure:?}");
    }
    assert!(failure.text.contains("it has sent 46 chunks"), "{failure:?}");
    assert!(failure.text.contains("45 have arrived"), "{failure:?}");
    assert!(
        sender_failure.text.contains("aborted") && sender_failure.text.ends_with("[TCPX-732]"),
        "{sender_failure:?}"
    );
}

#[test]
fn calls_of_the_receiving_end() {
    for (call, number, memory) in [
        ("regMr", 1, Memory::Device),
        ("irecv", 1, Memory::Device),
        ("irecv", 20, Memory::Host),
        ("irecvConsumed", 3, Memory::Device),
        ("iflush", 2, Memory::Host),
    ] {
        let mut pair = faulty_pair(None, Some(&format!("rc:{call}@{number}=2")));
        pair.join("left", "right").expect("connecting is not disturbed");
        let (left, right) = transfer(&mut pair, memory, PATIENCE);
        assert_failed(call, right, left);
        recover(&mut pair);
    }
}

#[test]
fn one_passing_error_of_test_is_forgiven() {
    let mut pair = faulty_pair(Some("rc:test@5=2"), Some("rc:test@9=2"));
    pair.join("left", "right").expect("connecting is not disturbed");
    let replies = transfer(&mut pair, Memory::Device, PATIENCE);
    assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
    pair.disconnect();
}

#[test]
fn failures_of_closing_calls_are_harmless() {
    for call in ["deregMr", "closeSend/closeRecv", "closeListen"] {
        let mut pair = faulty_pair(Some(&format!("rc:{call}@1=2")), None);
        pair.join("left", "right").expect(call);
        let replies = transfer(&mut pair, Memory::Device, PATIENCE);
        assert!(replies.0.is_ok() && replies.1.is_ok(), "{call}: {replies:?}");
        pair.disconnect();
        recover(&mut pair);
    }
}

#[test]
fn a_cut_data_socket_is_an_error_and_not_a_hang() {
    for (left, right) in
        [(Some("cut:send.data0@700000"), None), (None, Some("cut:recv.data0@700000"))]
    {
        let mut pair = faulty_pair(left, right);
        pair.join("left", "right").expect("connecting is not disturbed");
        let (sent, received) = transfer(&mut pair, Memory::Device, PATIENCE);
        let failure = received.expect_err("half of it never came").failure();
        assert!(["Plugin", "PeerGone"].contains(&failure.kind.as_str()), "{failure:?}");
        // The sending end may be done before the cut: its bytes are the system's then.
        if let Err(refusal) = sent {
            let failure = refusal.failure();
            assert!(["Plugin", "PeerGone"].contains(&failure.kind.as_str()), "{failure:?}");
        }
    }
}

#[test]
fn inconvenient_fragments_change_no_byte() {
    let mut pair = Pair { left: agent(None, Some("all")), right: agent(None, Some("all")) };
    pair.left.run(Command::New(options()));
    pair.right.run(Command::New(options()));
    pair.join("left", "right").expect("shapes are benign");
    for memory in [Memory::Device, Memory::Host] {
        let replies = transfer(&mut pair, memory, PATIENCE);
        assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
    }
    pair.disconnect();
}
