//! Peers that fall silent: with a progress thread that is their end, without one it is their right.

use rustix::process::Signal;
use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Pair, Side};

use crate::peers_to_run;

/// Far beyond any silence: a wait that ends with it would be as good as endless.
const ENDLESS_MS: u64 = 100_000;

fn pair(peer_timeout_ms: u64, progress_thread: bool) -> Pair {
    let agent = || peers_to_run::agent();
    // Every send waits for its receive.
    let eager_bytes = Some(0);
    let left =
        Options { peer_timeout_ms: Some(peer_timeout_ms), eager_bytes, ..Options::default() };
    let right = Options { progress_thread, ..Options::default() };
    Pair::connect(agent(), agent(), left, right)
}

fn post(pair: &mut Pair, is_send: bool) -> usize {
    let bytes = 1_000;
    let (memory, _) = pair.allocate(bytes, Memory::Device);
    pair.post(Side::Left, is_send, vec![PostSpec { memory, offset: 0, bytes, tag: 1 }])
}

fn a_frozen_peer_ends_an_endless_wait(is_send: bool, phase: &str) {
    let mut pair = pair(1_500, true);
    let transfer = post(&mut pair, is_send);
    pair.right.signal(Signal::STOP);
    pair.left.send_command(Command::Wait { transfer, timeout_ms: ENDLESS_MS });
    let failure = pair.left.receive_reply(PATIENCE).expect_err("it is frozen").failure();
    assert_eq!(failure.kind, "PeerGone", "{failure:?}");
    for words in ["peer right", phase, "nothing was heard of it for", "frozen"] {
        assert!(failure.text.contains(words), "{words}: {failure:?}");
    }
    // Its name is free for the next one.
    pair.left.run(Command::Disconnect { peer: "right".into() });
    pair.right = peers_to_run::agent();
    pair.right.run(Command::New(Options::default()));
    pair.join("left", "right").expect("another peer takes the name");
    pair.disconnect();
}

#[test]
fn a_frozen_receiver_ends_an_endless_send() {
    a_frozen_peer_ends_an_endless_wait(true, "during send");
}

#[test]
fn a_frozen_sender_ends_an_endless_receive() {
    a_frozen_peer_ends_an_endless_wait(false, "during receive");
}

#[test]
fn a_peer_without_a_progress_thread_may_be_silent() {
    // The system at the other end acknowledges, whatever becomes of the process.
    let mut pair = pair(400, false);
    let transfer = post(&mut pair, true);
    pair.right.signal(Signal::STOP);
    pair.left.send_command(Command::Wait { transfer, timeout_ms: 1_600 });
    let failure = pair.left.receive_reply(PATIENCE).expect_err("no receive is posted").failure();
    assert_eq!(failure.kind, "Deadline", "{failure:?}");
    assert!(failure.text.contains("nothing was heard of it for"), "{failure:?}");
    pair.right.signal(Signal::CONT);
    let bytes = 1_000;
    let memory: u64 = pair.right.get(Command::Allocate { bytes, memory: Memory::Device });
    let posts = vec![PostSpec { memory, offset: 0, bytes, tag: 1 }];
    let receive = pair.post(Side::Right, false, posts);
    pair.wait_both(transfer, receive);
    pair.disconnect();
}

#[test]
fn a_peer_that_does_not_even_read_for_a_while_is_not_gone() {
    // More announcements than its socket takes: the window of its end stays closed for longer than
    // the limit.
    let (messages, bytes) = (50_000, 64);
    let mut pair = pair(400, false);
    let (left, right) = pair.allocate(messages * bytes, Memory::Device);
    let posts = |memory| {
        let post = |at| PostSpec { memory, offset: at * bytes, bytes, tag: 1 };
        (0..messages).map(post).collect::<Vec<_>>()
    };
    pair.right.signal(Signal::STOP);
    let receives = pair.post(Side::Left, false, posts(left));
    pair.left.send_command(Command::Wait { transfer: receives, timeout_ms: 2_000 });
    let failure = pair.left.receive_reply(PATIENCE).expect_err("no send is posted").failure();
    assert_eq!(failure.kind, "Deadline", "{failure:?}");
    pair.right.signal(Signal::CONT);
    let sends = pair.post(Side::Right, true, posts(right));
    pair.wait_both(receives, sends);
    pair.disconnect();
}
