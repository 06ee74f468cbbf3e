//! Two hosts: network namespaces joined by a veth pair, with loss and with a cut link.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tcpx_tests::script::{Command, Memory, Options, PostSpec};
use tcpx_tests::{Network, Pair, Side};

use crate::peers_to_run;

fn pair(network: &Network, options: &Options) -> Pair {
    let start = |host: &str| tcpx_tests::Agent::start_in(host, Path::new(peers_to_run::PROGRAM));
    Pair::connect(start(&network.left()), start(&network.right()), options.clone(), options.clone())
}

fn transfer(pair: &mut Pair, bytes: u64, seed: u64) {
    let (left, right) = pair.allocate(bytes, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes, seed });
    let receive =
        pair.post(Side::Right, false, vec![PostSpec { memory: right, offset: 0, bytes, tag: 1 }]);
    let send =
        pair.post(Side::Left, true, vec![PostSpec { memory: left, offset: 0, bytes, tag: 1 }]);
    pair.wait_both(send, receive);
    let difference: Value =
        pair.right.get(Command::Verify { memory: right, offset: 0, bytes, seed });
    assert_eq!(difference, Value::Null);
}

#[test]
fn two_hosts_move_verified_bytes_over_the_interface_between_them() {
    let Some(network) = Network::lay_or_skip() else { return };
    let mut pair = pair(&network, &Options { channels: Some(3), ..Options::default() });
    transfer(&mut pair, 3_000_001, 1);
    let stats: Value = pair.left.get(Command::Stats);
    let nic = stats["peers"][0]["channels"][0]["nic"].as_str().unwrap();
    assert!(nic.starts_with("tvl"), "the NIC between the hosts, not loopback: {stats}");
    pair.part();
}

#[test]
#[ignore = "deep: network namespaces"]
fn one_percent_loss_changes_no_byte() {
    let Some(network) = Network::with_filters_or_skip() else { return };
    network.lose(1).expect("netem or nftables");
    let mut pair = pair(&network, &Options::default());
    transfer(&mut pair, 8_000_001, 2);
    pair.part();
}

#[test]
fn a_cut_link_ends_with_the_deadline_and_a_mended_one_goes_on() {
    let Some(network) = Network::lay_or_skip() else { return };
    let mut pair = pair(&network, &Options::default());
    transfer(&mut pair, 1_000_000, 3);
    let bytes = 20_000_000;
    let (left, right) = pair.allocate(bytes, Memory::Device);
    pair.left.run(Command::Fill { memory: left, offset: 0, bytes, seed: 4 });
    network.set_link(false).expect("ip");
    let receive =
        pair.post(Side::Right, false, vec![PostSpec { memory: right, offset: 0, bytes, tag: 1 }]);
    let send =
        pair.post(Side::Left, true, vec![PostSpec { memory: left, offset: 0, bytes, tag: 1 }]);
    let (sent, received) = pair.wait_replies(send, receive, Duration::from_millis(1_500));
    for reply in [sent, received] {
        let failure = reply.unwrap_err().failure();
        assert_eq!(failure.kind, "Deadline");
        assert!((1_500..20_000).contains(&failure.after_ms), "{failure:?}");
    }
    network.set_link(true).expect("ip");
    pair.wait_both(send, receive);
    let difference: Value =
        pair.right.get(Command::Verify { memory: right, offset: 0, bytes, seed: 4 });
    assert_eq!(difference, Value::Null);
    pair.part();
}
