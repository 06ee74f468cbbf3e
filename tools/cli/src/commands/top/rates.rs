//! Rates of peers from two pages of metrics, as rows of a table and for JSON. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::page::{Labels, PeerCounts, PeerId, peers};
use super::source::Reading;

/// Facts about what carries a peer's bytes that the table shows, in this order.
const SHOWN: [&str; 6] = ["transport", "nics", "peer_nics", "encrypted", "zero_copy", "one_sided"];

/// Peer, with its rates where two pages have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PeerRow {
    session: String,
    device: String,
    peer: String,
    state: String,
    /// 10^9 bytes a second.
    sent_gb_per_s: Option<f64>,
    received_gb_per_s: Option<f64>,
    /// Since the peer came.
    sent_bytes: u64,
    received_bytes: u64,
    /// Posted operations that have not ended.
    operations: u64,
    errors: u64,
    peer_transport: Option<Labels>,
}

/// Last page, and the one before it.
#[derive(Debug)]
pub(super) struct Rates {
    now: (Reading, BTreeMap<PeerId, PeerCounts>),
    before: Option<(Reading, BTreeMap<PeerId, PeerCounts>)>,
}

impl Rates {
    /// Begins with a page.
    pub(super) fn new(reading: Reading) -> Self {
        Self { now: parsed(reading), before: None }
    }

    /// Adds a later page. A file that was not written since is the same page.
    pub(super) fn add(&mut self, reading: Reading) {
        if reading.at != self.now.0.at || reading.page != self.now.0.page {
            self.before = Some(std::mem::replace(&mut self.now, parsed(reading)));
        }
    }

    /// Returns the seconds between the two pages.
    pub(super) fn between_s(&self) -> Option<f64> {
        let (before, _) = self.before.as_ref()?;
        let passed = self.now.0.at.duration_since(before.at).ok()?;
        (!passed.is_zero()).then_some(passed.as_secs_f64())
    }

    /// Returns all peers, by session, device and name.
    pub(super) fn rows(&self) -> Vec<PeerRow> {
        let seconds = self.between_s();
        let row = |(id, now): (&PeerId, &PeerCounts)| {
            let before = self.before.as_ref().and_then(|(_, peers)| peers.get(id));
            let rate = |of: fn(&PeerCounts) -> u64| {
                // A peer that has come again counts from 0.
                let grown = of(now).checked_sub(of(before?))?;
                Some(grown as f64 / seconds? / 1e9)
            };
            let PeerId { session, device, peer } = id.clone();
            PeerRow {
                session,
                device,
                peer,
                state: now.state.clone(),
                sent_gb_per_s: rate(|it| it.sent_bytes),
                received_gb_per_s: rate(|it| it.received_bytes),
                sent_bytes: now.sent_bytes,
                received_bytes: now.received_bytes,
                operations: now.operations,
                errors: now.errors,
                peer_transport: (!now.transport.is_empty()).then(|| now.transport.clone()),
            }
        };
        self.now.1.iter().map(row).collect()
    }
}

fn parsed(reading: Reading) -> (Reading, BTreeMap<PeerId, PeerCounts>) {
    let peers = peers(&reading.page);
    (reading, peers)
}

/// Returns the rows as a table: a line of numbers for each peer, and one of what carries its bytes.
pub(super) fn table(rows: &[PeerRow]) -> String {
    let mut text = format!(
        "{:>10} {:>10} {:>6} {:>6}  {:<8} {}",
        "send GB/s", "recv GB/s", "posted", "errors", "state", "session, device, peer"
    );
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.3}"));
    for row in rows {
        let names = [&row.session, &row.device, &row.peer].map(|it| it.as_str()).join(", ");
        text += &format!(
            "\n{:>10} {:>10} {:>6} {:>6}  {:<8} {}",
            rate(row.sent_gb_per_s),
            rate(row.received_gb_per_s),
            row.operations,
            row.errors,
            printable(&row.state),
            printable(&names),
        );
        let Some(facts) = &row.peer_transport else { continue };
        let shown = SHOWN.iter().filter_map(|name| Some(format!("{name}: {}", facts.get(*name)?)));
        text += &format!("\n{:>10} {}", "", printable(&shown.collect::<Vec<_>>().join("; ")));
    }
    if rows.is_empty() {
        text += "\nno peers";
    }
    text
}

/// Returns text that moves no terminal's cursor: names come from other hosts.
fn printable(text: &str) -> String {
    tcpx_core::printable(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn reading(at: u64, sent: u64) -> Reading {
        let peer = "session=\"s\",device=\"host\",peer=\"a\u{1b}[2J\"";
        let page = format!(
            "tcpx_peer_bytes_total{{{peer},direction=\"sent\"}} {sent}\n\
             tcpx_peer_state{{{peer},state=\"up\"}} 1\n\
             tcpx_peer_info{{{peer},transport=\"software\",nics=\"eth1 (10 Gbit/s)\"}} 1\n"
        );
        Reading { at: SystemTime::UNIX_EPOCH + Duration::from_secs(at), page }
    }

    #[test]
    fn rates_are_those_between_two_pages_and_unknown_before() {
        let mut rates = Rates::new(reading(10, 0));
        assert_eq!((rates.rows()[0].sent_gb_per_s, rates.between_s()), (None, None));
        rates.add(reading(10, 0));
        assert_eq!(rates.rows()[0].sent_gb_per_s, None, "the file was not written since");
        rates.add(reading(12, 3_000_000_000));
        assert_eq!((rates.rows()[0].sent_gb_per_s, rates.between_s()), (Some(1.5), Some(2.0)));
        rates.add(reading(12, 3_000_000_000));
        assert_eq!(rates.rows()[0].sent_gb_per_s, Some(1.5), "the file was not written since");
        rates.add(reading(13, 0));
        assert_eq!(rates.rows()[0].sent_gb_per_s, None, "the peer has come again");
    }

    #[test]
    fn a_table_has_the_rates_and_what_carries_the_bytes_and_no_control_character() {
        let mut rates = Rates::new(reading(1, 0));
        rates.add(reading(2, 250_000_000));
        let text = table(&rates.rows());
        for words in ["0.250", "up", "s, host, a", "transport: software; nics: eth1 (10 Gbit/s)"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains('\u{1b}') && text.lines().count() == 3, "{text:?}");
        assert!(table(&[]).ends_with("no peers"));
    }
}
