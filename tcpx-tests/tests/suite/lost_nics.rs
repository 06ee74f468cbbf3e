//! Hosts with two NICs, and one goes down: it costs its channels only, and work goes on over the
//! other.

use std::path::Path;

use serde_json::Value;
use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Agent, Network, Pair, Side, has_gpu};

use crate::peers_to_run;

/// Speed of each pair, in Mbit/s: what is under way takes longer than a NIC takes to go down.
const RATES: [u32; 2] = [200, 200];
const BYTES: u64 = 24_000_001;

/// `gpu`: whose memory moves, where ordinary memory does not stand for it.
fn pair(network: &Network, gpu: Option<u32>) -> Pair {
    let options = |side| Options {
        gpu,
        nics: network.nics(side, 2),
        channels: Some(4),
        peer_timeout_ms: Some(2_000),
        progress_thread: true,
        ..Options::default()
    };
    let start = |host: &str| Agent::start_in(host, Path::new(peers_to_run::PROGRAM));
    let (left, right) = (options(Side::Left), options(Side::Right));
    Pair::connect(start(&network.left()), start(&network.right()), left, right)
}

/// Moves verified bytes both ways at once, and does this in between.
fn exchange(pair: &mut Pair, seed: u64, meanwhile: impl FnOnce()) {
    let memories = [pair.allocate(BYTES, Memory::Device), pair.allocate(BYTES, Memory::Host)];
    let [there, back] = memories;
    let fill = |memory, seed| Command::Fill { memory, offset: 0, bytes: BYTES, seed };
    pair.left.run(fill(there.0, seed));
    pair.right.run(fill(back.1, seed + 1));
    let post = |memory| vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 1 }];
    let transfers = [
        (pair.post(Side::Left, true, post(there.0)), pair.post(Side::Right, false, post(there.1))),
        (pair.post(Side::Left, false, post(back.0)), pair.post(Side::Right, true, post(back.1))),
    ];
    meanwhile();
    for (left, right) in transfers {
        pair.wait_both(left, right);
    }
    let verify = |memory, seed| Command::Verify { memory, offset: 0, bytes: BYTES, seed };
    let differences: [Value; 2] =
        [pair.right.get(verify(there.1, seed)), pair.left.get(verify(back.0, seed + 1))];
    assert_eq!(differences, [Value::Null, Value::Null]);
}

/// Chunks that a channel has sent and received.
fn chunks(stats: &Value, channel: usize) -> [u64; 2] {
    let channel = &stats["peers"][0]["channels"][channel];
    ["send", "recv"].map(|way| channel[way]["chunks"].as_u64().expect("it is counted"))
}

#[test]
fn a_nic_that_goes_down_costs_its_channels_and_no_byte() {
    one_of_two_goes_down(None);
}

#[test]
fn nor_a_byte_of_a_gpu() {
    if has_gpu() {
        one_of_two_goes_down(Some(0));
    }
}

fn one_of_two_goes_down(gpu: Option<u32>) {
    let Some(network) = Network::with_pairs_or_skip(&RATES) else { return };
    let mut pair = pair(&network, gpu);
    exchange(&mut pair, 1, || {});
    exchange(&mut pair, 3, || network.set_nic(Side::Right, 1, false).expect("ip"));
    let before: Value = pair.left.get(Command::Stats);
    exchange(&mut pair, 5, || {});
    let after: Value = pair.left.get(Command::Stats);
    for channel in 0..4 {
        let nic = after["peers"][0]["channels"][channel]["nic"].as_str().expect("it has one");
        let is_lost = nic == network.nics(Side::Left, 2)[1];
        let moved = chunks(&after, channel) != chunks(&before, channel);
        assert_eq!(moved, !is_lost, "channel {channel}: {before} and {after}");
        let lost = after["peers"][0]["channels"][channel]["lost"].as_u64();
        assert_eq!(lost, Some(is_lost.into()), "channel {channel}: {after}");
    }
    pair.disconnect();
}
