//! Two hosts: network namespaces joined by a veth pair, with loss and with a cut link.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tcpx_testkit::eventually;
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

/// Returns whether the session has noticed this trouble.
fn seen(stats: &Value, id: &str) -> bool {
    stats["alarms"].as_array().expect("a list").iter().any(|alarm| alarm["id"] == id)
}

#[test]
fn two_hosts_move_verified_bytes_over_the_interface_between_them() {
    let Some(network) = Network::lay_or_skip() else { return };
    let mut pair = pair(&network, &Options { channels: Some(3), ..Options::default() });
    transfer(&mut pair, 3_000_001, 1);
    let stats: Value = pair.left.get(Command::Stats);
    let nic = stats["peers"][0]["channels"][0]["nic"].as_str().unwrap();
    assert!(nic.starts_with("tvl"), "the NIC between the hosts, not loopback: {stats}");
    // A veth has 10 Gbit/s for the kernel.
    for (end, name) in [("local", "tvl"), ("remote", "tvr")] {
        let nic = &stats["peers"][0]["transport"][end]["nics"][0];
        assert_eq!(nic["speed_mbps"], 10_000, "{stats}");
        assert!(nic["name"].as_str().is_some_and(|it| it.starts_with(name)), "{stats}");
    }
    pair.disconnect();
}

#[test]
#[ignore = "deep: network namespaces"]
fn one_percent_loss_changes_no_byte() {
    let Some(network) = Network::with_filters_or_skip() else { return };
    network.lose(1).expect("netem or nftables");
    let mut pair = pair(&network, &Options::default());
    transfer(&mut pair, 8_000_001, 2);
    pair.disconnect();
}

#[test]
fn a_cut_link_ends_at_the_deadline_and_a_restored_one_continues() {
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
    let failures = [sent, received].map(|reply| reply.unwrap_err().failure());
    for failure in &failures {
        assert_eq!(failure.kind, "Deadline");
        assert!((1_500..20_000).contains(&failure.after_ms), "{failure:?}");
    }
    // With one end of a cable the other is down, too.
    for (failure, nic) in failures.iter().zip(["tvl", "tvr"]) {
        let named = format!("; channel 0 is over NIC {nic}");
        assert!(failure.text.contains(&named), "{failure:?}");
        assert!(failure.text.ends_with(", which is down [TCPX-302]"), "{failure:?}");
    }
    network.set_link(true).expect("ip");
    pair.wait_both(send, receive);
    let difference: Value =
        pair.right.get(Command::Verify { memory: right, offset: 0, bytes, seed: 4 });
    assert_eq!(difference, Value::Null);
    pair.disconnect();
}

/// The sender receives a warning of its own NIC, and no other. The peer takes nothing because of
/// it.
#[test]
fn a_nic_that_went_down_is_named_instead_of_the_peer() {
    let Some(network) = Network::lay_or_skip() else { return };
    let options = Options { stall_after_ms: Some(1_000), ..Options::default() };
    let mut pair = pair(&network, &options);
    transfer(&mut pair, 1_000_000, 3);
    network.set_link(false).expect("ip");
    let bytes = 20_000_000;
    let (left, right) = pair.allocate(bytes, Memory::Device);
    let posts = |memory| vec![PostSpec { memory, offset: 0, bytes, tag: 1 }];
    let receive = pair.post(Side::Right, false, posts(right));
    let send = pair.post(Side::Left, true, posts(left));
    let stats = eventually(|| {
        let wait = Command::Wait { transfer: send, timeout_ms: 100 };
        pair.left.ask(wait).expect_err("nothing moves");
        let stats: Value = pair.left.get(Command::Stats);
        seen(&stats, "TCPX-302").then_some(stats)
    });
    assert!(!seen(&stats, "TCPX-902"), "{stats}");
    network.set_link(true).expect("ip");
    pair.wait_both(send, receive);
    pair.disconnect();
}

/// A veth has 10 Gbit/s for the kernel.
#[test]
#[ignore = "deep: moves 1 GiB at less than a quarter of the NIC's speed"]
fn a_session_that_is_far_below_its_nic_says_so() {
    let Some(network) = Network::with_filters_or_skip() else { return };
    network.limit(60).expect("nftables");
    let options = Options { progress_thread: true, ..Options::default() };
    let mut pair = pair(&network, &options);
    let mut seed = 0;
    let stats = eventually(|| {
        seed += 1;
        transfer(&mut pair, 64 << 20, seed);
        let stats: Value = pair.left.get(Command::Stats);
        seen(&stats, "TCPX-906").then_some(stats)
    });
    assert!(stats["total"]["send"]["bytes"].as_u64() >= Some(1 << 30), "{stats}");
    pair.disconnect();
}
