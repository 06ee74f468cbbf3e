//! Two NICs of unequal speed: a session that has both carries what both carry.

use std::path::Path;
use std::time::{Duration, Instant};

use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Agent, Network, Pair, Side};

use crate::peers_to_run;

/// Speeds of the NICs in Mbit/s: so low that sockets have something to send while a thread waits
/// for a processor.
const RATES: [u32; 2] = [20, 80];
const BYTES: u64 = 64 << 20;
/// Share of both speeds that payload has in packets of 1514 bytes, each of 1448.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// Share of what both NICs carry that a message reaches. With as much on each it would be 0.4.
const LEAST_SHARE: f64 = 0.8;
/// The machine may be busy with something else for a while.
const TRIES: usize = 8;

/// Moves a message, and returns the time that it took.
fn send(pair: &mut Pair, (left, right): (u64, u64), bytes: u64) -> Duration {
    let posts = |memory| vec![PostSpec { memory, offset: 0, bytes, tag: 1 }];
    let receive = pair.post(Side::Right, false, posts(right));
    let start = Instant::now();
    let send = pair.post(Side::Left, true, posts(left));
    pair.wait_both(send, receive);
    start.elapsed()
}

#[test]
fn a_session_over_two_nics_of_unequal_speed_carries_what_both_carry() {
    let Some(network) = Network::with_pairs_or_skip(&RATES) else { return };
    let ends = [(network.left(), Side::Left), (network.right(), Side::Right)];
    let [left, right] = ends.map(|(host, side)| {
        let nics = network.nics(side, 2);
        let agent = Agent::start_in(&host, Path::new(peers_to_run::PROGRAM));
        (agent, Options { nics, channels: Some(2), ..Options::default() })
    });
    let mut pair = Pair::connect(left.0, right.0, left.1, right.1);
    let memory = pair.allocate(BYTES, Memory::Host);
    // Makes the channels.
    send(&mut pair, memory, 1 << 20);
    let both = f64::from(RATES.iter().sum::<u32>()) * 1e6 / 8.0 * PAYLOAD;
    let mut shares = Vec::new();
    while shares.iter().all(|share| *share < LEAST_SHARE) {
        assert!(shares.len() < TRIES, "shares of what both NICs carry: {shares:?}");
        let seconds = send(&mut pair, memory, BYTES).as_secs_f64();
        shares.push(BYTES as f64 / seconds / both);
    }
    // How fast the NICs are is known now, so that these are cut by it, too.
    for (seed, bytes) in [(1, BYTES), (2, 16 << 20), (3, 3_000_001), (4, 700_000)] {
        pair.left.run(Command::Fill { memory: memory.0, offset: 0, bytes, seed });
        send(&mut pair, memory, bytes);
        let verify = Command::Verify { memory: memory.1, offset: 0, bytes, seed };
        let difference: serde_json::Value = pair.right.get(verify);
        assert_eq!(difference, serde_json::Value::Null, "{bytes}");
    }
    pair.disconnect();
}
