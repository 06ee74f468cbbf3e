//! Peers in a page of metrics in Prometheus's text format. Pure. The page may come from any
//! program: what is not understood is passed over.

use std::collections::BTreeMap;

/// Labels of a sample by name.
pub(super) type Labels = BTreeMap<String, String>;

/// Names that tell one peer of a process from all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerId {
    pub(super) session: String,
    pub(super) device: String,
    pub(super) peer: String,
}

/// Counts of a peer at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PeerCounts {
    pub(super) state: String,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) operations: u64,
    pub(super) errors: u64,
    /// Facts about what carries its bytes, by name.
    pub(super) transport: Labels,
}

/// Returns the peers that a page has samples of.
pub(super) fn peers(page: &str) -> BTreeMap<PeerId, PeerCounts> {
    let mut peers: BTreeMap<PeerId, PeerCounts> = BTreeMap::new();
    for (name, mut labels, value) in page.lines().filter_map(sample) {
        let [Some(session), Some(device), Some(peer)] =
            ["session", "device", "peer"].map(|label| labels.remove(label))
        else {
            continue;
        };
        let counts = peers.entry(PeerId { session, device, peer }).or_default();
        match (name, labels.get("direction").map(String::as_str)) {
            ("tcpx_peer_state", _) => counts.state = labels.remove("state").unwrap_or_default(),
            ("tcpx_peer_bytes_total", Some("sent")) => counts.sent_bytes = value,
            ("tcpx_peer_bytes_total", Some("received")) => counts.received_bytes = value,
            ("tcpx_peer_operations", _) => counts.operations = value,
            ("tcpx_peer_operation_errors_total", _) => counts.errors = value,
            ("tcpx_peer_info", _) => counts.transport = labels,
            _ => {}
        }
    }
    peers
}

/// Reads a sample of ours: its name, labels and whole number. A page may have labels of others, as
/// those that a gateway adds.
fn sample(line: &str) -> Option<(&str, Labels, u64)> {
    let (name, mut rest) = line.split_once('{')?;
    if !name.starts_with("tcpx_peer_") {
        return None;
    }
    let mut labels = Labels::new();
    while let Some((label, after)) = rest.split_once("=\"") {
        let (value, after) = quoted(after)?;
        labels.insert(label.trim_start_matches([',', ' ']).to_owned(), value);
        rest = after;
        if let Some(number) = rest.trim_start_matches([',', ' ']).strip_prefix('}') {
            let number = number.split_whitespace().next()?;
            // Gateways write whole numbers as those of floating point.
            let float = || number.parse::<f64>().ok().map(|number| number as u64);
            return Some((name, labels, number.parse().ok().or_else(float)?));
        }
    }
    None
}

/// Reads a value up to its closing quotation mark. Returns it and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_read_with_its_escapes_and_what_others_add() {
        let page = r#"# TYPE tcpx_peer_bytes_total counter
tcpx_peer_bytes_total{session="s",device="host",peer="a \"},{\\n\n",direction="sent"} 18446744073709551615
tcpx_peer_bytes_total{job="x", session="s",device="host",peer="b",direction="received",} 1e9 1700000000
tcpx_peer_state{session="s",device="host",peer="b",state="up"} 1
tcpx_peer_info{session="s",device="host",peer="b",nics="eth1 (100 Gbit/s)"} 1
tcpx_peers{session="s",device="host"} 2
tcpx_peer_bytes_total{session="s",device="host",peer="torn
other_total{session="s",device="host",peer="c"} 1
"#;
        let id =
            |peer: &str| PeerId { session: "s".into(), device: "host".into(), peer: peer.into() };
        let peers = peers(page);
        assert_eq!(peers.keys().cloned().collect::<Vec<_>>(), [id("a \"},{\\n\n"), id("b")]);
        assert_eq!(peers[&id("a \"},{\\n\n")].sent_bytes, u64::MAX);
        let b = &peers[&id("b")];
        assert_eq!((b.received_bytes, b.state.as_str()), (1_000_000_000, "up"));
        assert_eq!(b.transport["nics"], "eth1 (100 Gbit/s)");
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in "(tcpx_peer_|[a-z{}=\",\\\\ \n0-9é]){0,60}") {
            let _ = peers(&page);
        }
    }
}
