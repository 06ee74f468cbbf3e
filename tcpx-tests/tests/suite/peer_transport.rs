//! Description of what carries the bytes of a peer: the log, reports and metrics of both ends.

use tcpx_core::{Encryption, LinkBytes, PeerTransport, Session, SessionOptions};
use tcpx_testkit::{CapturedLog, eventually, in_own_process};
use tcpx_tests::sessions::{connect, lively, open};

/// Returns what carries the bytes of the only peer.
fn transport(session: &Session) -> PeerTransport {
    let peers = session.stats().peers;
    peers[0].transport.clone().expect("its link is proven")
}

fn pair(options: impl Fn() -> SessionOptions) -> [Session; 2] {
    let [left, right] = ["left", "right"].map(|name| open(options().name(name)));
    connect(&left, &right);
    [left, right]
}

#[test]
fn both_ends_say_the_same_of_each_other() {
    let [left, right] = pair(|| lively().channels(3).encryption(Encryption::Require));
    let [here, there] = [&left, &right].map(transport);
    for end in [&here, &there] {
        assert_eq!((end.name.as_str(), end.channels), ("software", 3), "{end:?}");
        assert!(end.encrypted && end.local.nics.0.len() == 1, "{end:?}");
        assert_eq!(end.zero_copy.to_string(), "no");
        assert!(end.remote.address.starts_with(&end.local.address), "both are of this host");
    }
    assert_eq!((&here.local.nics, &here.remote.nics), (&there.remote.nics, &there.local.nics));
}

#[test]
fn the_path_of_reads_and_writes_is_what_both_ends_agree_on() {
    let [short, long] = [("left", 1 << 20), ("right", u64::MAX)]
        .map(|(name, bytes)| open(lively().name(name).link_bytes(LinkBytes::Most(bytes))));
    connect(&short, &long);
    assert_eq!(
        transport(&long).one_sided.to_string(),
        "control link up to 1048576 bytes, or channels"
    );
    let [left, _right] = pair(|| lively().eager_bytes(0));
    assert_eq!(transport(&left).one_sided.to_string(), "channels");
}

/// The NICs that are named before the channels are made are those that the channels run over.
#[test]
fn the_line_the_report_and_the_metric_have_the_same_words() {
    in_own_process!();
    // Sessions have threads.
    let log = CapturedLog::of_all_threads();
    for connect_channels in [false, true] {
        let [left, right] = pair(|| lively().connect_channels(connect_channels));
        let transport = transport(&left);
        if connect_channels {
            let channels = &left.stats().peers[0].channels;
            assert_eq!(channels[0].nic, transport.local.nics.0[0].name);
        }
        let metrics = left.metrics_text();
        let sample = metrics.lines().find(|line| line.starts_with("tcpx_peer_info"));
        let sample = sample.expect("the peer has a sample");
        for (name, fact) in transport.facts() {
            assert!(sample.contains(&format!(",{name}=\"{fact}\"")), "{name} {fact}: {sample}");
        }
        let to = transport.remote.address;
        eventually(|| {
            let text = log.text();
            let line = text.lines().find(|it| it.contains("peer is up") && it.contains(&to))?;
            for name in ["nics=", "numa_nodes=", "peer_nics=", "zero_copy=", "one_sided="] {
                assert!(line.contains(name), "{line}");
            }
            Some(())
        });
        drop([left, right]);
    }
}
