//! Cuts of the data path between two hosts, while the control link lives and together with the
//! link. Both ends get a typed error, with a thread that waits and without any post.

use std::path::Path;
use std::time::Duration;

use tcpx_testkit::PATIENCE;
use tcpx_tests::script::{Command, Failure, Memory, Options, PostSpec};
use tcpx_tests::{Agent, Network, PacketFate, Pair, Side, control_addresses};

use crate::peers_to_run;

/// Far beyond any limit here: a wait that ends with it would be as good as endless.
const ENDLESS_MS: u64 = 100_000;
const BYTES: u64 = 1_000_000;
const BOTH: &[Side] = &[Side::Left, Side::Right];

/// Two connected sessions without progress threads, so that nothing but the data path can end them
/// while the other one computes.
struct Hosts {
    network: Network,
    pair: Pair,
    control_port: u16,
}

impl Hosts {
    /// `None` where there are no namespaces. A message has gone each way.
    fn connected(network: Option<Network>, peer_timeout_ms: u64) -> Option<Self> {
        let network = network?;
        let start = |host: &str| Agent::start_in(host, Path::new(peers_to_run::PROGRAM));
        let options = Options {
            channels: Some(1),
            peer_timeout_ms: Some(peer_timeout_ms),
            ..Options::default()
        };
        let (left, right) = (start(&network.left()), start(&network.right()));
        let mut pair = Pair::connect(left, right, options.clone(), options);
        let info: Vec<u8> = pair.right.get(Command::Listen);
        let control_port = control_addresses(&info)[0].port();
        for sender in [Side::Left, Side::Right] {
            let (send, receive) = post(&mut pair, sender);
            match sender {
                Side::Left => pair.wait_both(send, receive),
                Side::Right => pair.wait_both(receive, send),
            }
        }
        Some(Self { network, pair, control_port })
    }

    fn cut(&self, hosts: &[Side], fate: PacketFate) {
        self.network.cut_others(self.control_port, hosts, fate).expect("nft");
    }
}

/// Posts a message; the numbers of the send and of the receive.
fn post(pair: &mut Pair, sender: Side) -> (usize, usize) {
    let (left, right) = pair.allocate(BYTES, Memory::Device);
    let posts = |memory| vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 1 }];
    match sender {
        Side::Left => {
            let receive = pair.post(Side::Right, false, posts(right));
            (pair.post(Side::Left, true, posts(left)), receive)
        }
        Side::Right => {
            let receive = pair.post(Side::Left, false, posts(left));
            (pair.post(Side::Right, true, posts(right)), receive)
        }
    }
}

/// A dead data path as one end has it: its own plugin noticed, or the other end did and reported
/// it.
fn assert_typed(failure: &Failure) {
    let known = ["[TCPX-732]", "[TCPX-709]"];
    assert!(known.iter().any(|id| failure.text.ends_with(id)), "{failure:?}");
    assert!(failure.text.contains("channel 0"), "{failure:?}");
    match failure.kind.as_str() {
        "Plugin" => assert!(failure.text.contains("NIC tv"), "{failure:?}"),
        "PeerGone" => {}
        _ => panic!("{failure:?}"),
    }
}

/// The first message after an idle time finds the path cut: the receiver's endless wait ends.
fn a_message_after_the_cut(hosts: &[Side], fate: PacketFate) {
    let Some(mut it) = Hosts::connected(Network::with_filters_or_skip(), 2_000) else { return };
    it.cut(hosts, fate);
    let (send, receive) = post(&mut it.pair, Side::Left);
    it.pair.right.send_command(Command::Wait { transfer: receive, timeout_ms: ENDLESS_MS });
    // Whether the system takes the bytes or not: the sender gets the error.
    let _ = it.pair.left.ask(Command::Wait { transfer: send, timeout_ms: ENDLESS_MS });
    let sender = it.pair.left.first_refusal(&Command::Transfer { peer: "right".into() });
    assert_typed(&sender);
    let receiver = it.pair.right.receive_reply(PATIENCE).expect_err("nothing arrives").failure();
    assert_typed(&receiver);
}

#[test]
#[ignore = "deep: network namespaces"]
fn a_message_after_both_directions_were_lost() {
    a_message_after_the_cut(BOTH, PacketFate::Lost);
}

#[test]
#[ignore = "deep: network namespaces"]
fn a_message_after_the_way_to_the_receiver_was_lost() {
    a_message_after_the_cut(&[Side::Right], PacketFate::Lost);
}

#[test]
fn a_message_after_connections_are_reset() {
    a_message_after_the_cut(BOTH, PacketFate::Reset);
}

/// The bytes arrive, but the report of their arrival does not.
#[test]
#[ignore = "deep: network namespaces"]
fn a_message_after_the_way_back_was_lost() {
    let Some(mut it) = Hosts::connected(Network::with_filters_or_skip(), 2_000) else { return };
    it.cut(&[Side::Left], PacketFate::Lost);
    let (send, receive) = post(&mut it.pair, Side::Left);
    let (sent, received) = it.pair.wait_replies(send, receive, Duration::from_millis(ENDLESS_MS));
    for failure in [sent, received].into_iter().filter_map(Result::err) {
        assert_typed(&failure.failure());
    }
    let failure = it.pair.left.first_refusal(&Command::Transfer { peer: "right".into() });
    assert_typed(&failure);
}

/// Cuts the path while neither end has posted anything. Both ends notice.
fn idle_ends_notice(fate: PacketFate) {
    let Some(mut it) = Hosts::connected(Network::with_filters_or_skip(), 2_000) else { return };
    it.cut(BOTH, fate);
    let left = it.pair.left.first_refusal(&Command::Transfer { peer: "right".into() });
    assert_eq!(left.kind, "Plugin", "{left:?}");
    assert!(left.text.contains("checkComm returned 2"), "{left:?}");
    assert_typed(&left);
    let right = it.pair.right.first_refusal(&Command::Transfer { peer: "left".into() });
    assert_typed(&right);
}

#[test]
#[ignore = "deep: network namespaces"]
fn idle_ends_notice_that_packets_are_lost() {
    idle_ends_notice(PacketFate::Lost);
}

#[test]
fn idle_ends_notice_that_connections_are_reset() {
    idle_ends_notice(PacketFate::Reset);
}

/// The interface goes, and with it the link. `TCPX_TEST_HOST_TIMEOUT_MS` asks for another limit;
/// `--nocapture` shows how long it took.
#[test]
fn a_host_that_is_gone_ends_an_endless_wait() {
    let asked = std::env::var("TCPX_TEST_HOST_TIMEOUT_MS").ok();
    let limit_ms = asked.map_or(2_000, |asked| asked.parse().expect("a number"));
    let Some(mut it) = Hosts::connected(Network::lay_or_skip(), limit_ms) else { return };
    let (memory, _) = it.pair.allocate(BYTES, Memory::Device);
    let posts = vec![PostSpec { memory, offset: 0, bytes: BYTES, tag: 1 }];
    let receive = it.pair.post(Side::Left, false, posts);
    it.network.set_link(false).expect("ip");
    it.pair.left.send_command(Command::Wait { transfer: receive, timeout_ms: ENDLESS_MS });
    let failure = it.pair.left.receive_reply(PATIENCE).expect_err("the peer has gone").failure();
    println!(
        "limit {limit_ms} ms: {} after {} ms: {}",
        failure.kind, failure.after_ms, failure.text
    );
    match failure.kind.as_str() {
        "PeerGone" => {
            assert!(failure.text.contains("its host has acknowledged nothing"), "{failure:?}")
        }
        _ => assert_typed(&failure),
    }
}
