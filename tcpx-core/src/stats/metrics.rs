//! Statistics as text in Prometheus's text format 0.0.4. Pure.
//!
//! The metrics are tables of name, help, kind and reader of the value. The code walks these tables.
//! - `exposition`: writer of the format: tables, families, samples, labels and their escapes.

mod exposition;

use std::collections::BTreeMap;

use self::exposition::MetricKind::{Counter, Gauge, Microseconds, Seconds};
use self::exposition::MetricSamples::{ByLabel, One};
use self::exposition::{Exposition, Labels, MetricTable};
use super::ChannelStats;
use super::alarm::Alarm;
use super::peer_transport::PeerTransport;
use super::report::{ChannelReport, PeerReport, SessionReport};
use super::tcp::TcpStats;

/// Returns the statistics of sessions as text for Prometheus. Every sample has the labels
/// `session`, which is the session's name, and `device`. If several sessions have the same labels,
/// all but the first get a number behind the name ("prefill#2").
///
/// A page has each metric once. So a program with several sessions makes one page of all their
/// reports, and does not join pages.
///
/// ```
/// use tcpx_core::{PluginChoice, Session, SessionOptions, metrics_text};
/// # fn main() -> tcpx_core::Result<()> {
/// let options = SessionOptions::default().plugin(PluginChoice::Soft);
/// let sessions = [Session::new(options.clone().name("prefill"))?, Session::new(options)?];
/// let reports = sessions.each_ref().map(Session::stats);
/// let page = metrics_text(&reports);
/// assert!(page.contains("tcpx_messages_total{session=\"prefill\",device=\"host\","));
/// # Ok(())
/// # }
/// ```
pub fn metrics_text<'a>(reports: impl IntoIterator<Item = &'a SessionReport>) -> String {
    let mut page = Exposition::default();
    let mut names = UniqueNames::default();
    for report in reports {
        let name = names.unique((&report.name, &report.device));
        let labels = Labels::default().and("session", &name).and("device", &report.device);
        let about = labels
            .and("transport", &report.transport)
            .and("plugin", &report.plugin_name)
            .and("device_memory", &report.device_memory)
            .and("unpack", &report.unpack)
            .and("encryption", &report.encryption)
            .and("not_encrypted", report.not_encrypted.as_deref().unwrap_or_default());
        page.add(ABOUT, &about, report);
        page.add(STATE, &labels, report);
        // Alarms that were never seen are included: Prometheus raises no alert on a counter that
        // appears only when it grows.
        for id in Alarm::ALL.map(|alarm| alarm.diagnosis().code.to_string()) {
            let seen = report.alarms.iter().find(|seen| seen.id == id);
            page.add(ALARM, &labels.and("id", &id), &seen.map_or(0, |seen| seen.count));
        }
        page.add(WORK, &labels, report);
        for nic in &report.nics {
            let labels = labels.and("nic", &nic.nic);
            page.add(LANE, &labels.and("direction", "sent"), &nic.send);
            page.add(LANE, &labels.and("direction", "received"), &nic.recv);
            page.add(NIC, &labels, nic);
            // A plugin that does not show its connections has no figures of them.
            if nic.tcp != TcpStats::default() {
                page.add(TCP, &labels, &nic.tcp);
            }
        }
        let mut names = UniqueNames::default();
        for peer in &report.peers {
            let labels = labels.and("peer", &names.unique((&peer.name, "")));
            page.add(PEER_STATE, &labels.and("state", &peer.state), peer);
            page.add(PEER, &labels, peer);
            if let Some(transport) = &peer.transport {
                let facts = transport.facts().into_iter();
                let facts = facts.fold(labels.clone(), |all, (name, fact)| all.and(name, &fact));
                page.add(PEER_INFO, &facts, transport);
            }
        }
    }
    page.into_text()
}

/// Number of times that each name was used. Prometheus refuses a page that has a sample twice.
#[derive(Default)]
struct UniqueNames<'a>(BTreeMap<(&'a str, &'a str), u32>);

impl<'a> UniqueNames<'a> {
    /// Returns the name, with a number if it was used before.
    fn unique(&mut self, own: (&'a str, &'a str)) -> String {
        let count = self.0.entry(own).or_default();
        *count += 1;
        match *count {
            1 => own.0.to_owned(),
            count => format!("{}#{count}", own.0),
        }
    }
}

/// Properties of a session.
#[rustfmt::skip]
const ABOUT: MetricTable<SessionReport> = &[
    ("tcpx_session_info", "What the session is; always 1.", Gauge, One(|_| 1)),
];

/// Current state of a session.
#[rustfmt::skip]
const STATE: MetricTable<SessionReport> = &[
    ("tcpx_peers", "Peers that there are now.", Gauge, One(|it| it.peers.len() as u64)),
    ("tcpx_peers_failed_total", "Peers that failed.", Counter, One(|it| it.peers_failed)),
    ("tcpx_peers_parked", "Peers that have ended while something still uses their memory.",
        Gauge, One(|it| it.peers_parked as u64)),
    ("tcpx_plugin_calls_hung", "Calls of the plugin that have not returned for more than 10 s.",
        Gauge, One(|it| it.plugin_calls_hung as u64)),
    ("tcpx_kept_for_peers_bytes",
        "Bytes that peers make this session keep for them, beside what is each one's own.",
        Gauge, One(|it| it.kept_for_peers_bytes)),
    ("tcpx_operation_errors_total", "Operations that ended with an error, cancelled ones included.",
        Counter, One(|it| it.total.errors)),
];

/// Counts of an alarm.
#[rustfmt::skip]
const ALARM: MetricTable<u64> = &[
    ("tcpx_alarms_total", "How often trouble began, by the id that `tcpx explain` takes.",
        Counter, One(|count| *count)),
];

/// Work that a session has done.
#[rustfmt::skip]
const WORK: MetricTable<SessionReport> = &[
    ("tcpx_stage_seconds_total", "What the session's time went to.", Seconds, ByLabel("stage", &[
        ("idle", |it| it.stages.idle_ns), ("sending", |it| it.stages.sending_ns),
        ("receiving", |it| it.stages.receiving_ns),
        ("receiving_and_unpacking", |it| it.stages.receiving_and_unpacking_ns),
        ("unpacking", |it| it.stages.unpacking_ns), ("submitting", |it| it.stages.submitting_ns)])),
    ("tcpx_unpack_batches_total",
        "Batches of chunks that were unpacked, or gathered from device memory.",
        Counter, One(|it| it.unpack_batches)),
    ("tcpx_unpack_seconds_total",
        "Time from the submit of a batch until it was seen to be finished, summed.",
        Seconds, One(|it| it.unpack_ns)),
    ("tcpx_staging_bytes", "Memory in which scattered small sends are gathered.",
        Gauge, ByLabel("what", &[
            ("limit", |it| it.staging_memory.limit_bytes),
            ("allocated", |it| it.staging_memory.allocated_bytes),
            ("used", |it| it.staging_memory.used_bytes)])),
    ("tcpx_messages_total", "Sends and receives that were matched, or sent eagerly.",
        Counter, ByLabel("direction", &[
            ("sent", |it| it.total.messages_sent),
            ("received", |it| it.total.messages_received)])),
    ("tcpx_link_messages_total",
        "Those of them that travelled on the control link, which no NIC counts.",
        Counter, ByLabel("direction", &[
            ("sent", |it| it.total.eager_sent.messages),
            ("received", |it| it.total.eager_received.messages)])),
    ("tcpx_link_bytes_total", "Bytes of messages that travelled on the control link.",
        Counter, ByLabel("direction", &[
            ("sent", |it| it.total.eager_sent.bytes),
            ("received", |it| it.total.eager_received.bytes)])),
    ("tcpx_served_requests_total", "Requests of peers on exported memory that are done.",
        Counter, ByLabel("kind", &[
            ("read", |it| it.total.one_sided.reads_served),
            ("write", |it| it.total.one_sided.writes_served)])),
    ("tcpx_served_bytes_total", "Bytes of exported memory that peers have read and written.",
        Counter, ByLabel("kind", &[
            ("read", |it| it.total.one_sided.bytes_read),
            ("write", |it| it.total.one_sided.bytes_written)])),
    ("tcpx_link_operation_bytes_total",
        "Bytes of reads and writes that travelled on the control link.",
        Counter, ByLabel("direction", &[
            ("sent", |it| it.total.one_sided.link_bytes_sent),
            ("received", |it| it.total.one_sided.link_bytes_received)])),
    ("tcpx_refused_requests_total",
        "Requests of peers on exported memory that were refused or stopped.",
        Counter, ByLabel("reason", &[
            ("key", |it| it.total.one_sided.refused_key),
            ("range", |it| it.total.one_sided.refused_range),
            ("access", |it| it.total.one_sided.refused_access),
            ("revoked", |it| it.total.one_sided.revoked),
            ("other", |it| it.total.one_sided.refused_otherwise)])),
    ("tcpx_notifications_total", "Notifications to peers, and of peers.",
        Counter, ByLabel("direction", &[
            ("sent", |it| it.total.one_sided.notifications_sent),
            ("received", |it| it.total.one_sided.notifications_received)])),
    ("tcpx_notifications_unsent_total",
        "Notifications for which a peer had no room until it ended.",
        Counter, One(|it| it.total.one_sided.notifications_unsent)),
    ("tcpx_notifications_waiting", "Notifications that wait for the program.",
        Gauge, One(|it| it.notifications_waiting as u64)),
    ("tcpx_ranges_told_total", "Ranges that peers were told of in lists of operations.",
        Counter, One(|it| it.total.one_sided.ranges_told)),
];

/// Counters of the channels of a NIC in one direction.
#[rustfmt::skip]
const LANE: MetricTable<ChannelStats> = &[
    ("tcpx_bytes_total", "Bytes of chunks.", Counter, One(|it| it.bytes)),
    ("tcpx_chunks_total", "Chunks sent, or received and unpacked.", Counter, One(|it| it.chunks)),
    ("tcpx_stalls_total", "Rounds in which a chunk waited, by the reason.",
        Counter, ByLabel("reason", &[
            ("window", |it| it.window_full),
            ("credit", |it| it.credit_waits),
            ("plugin", |it| it.plugin_busy)])),
    ("tcpx_requests_total", "Requests posted to the plugin.", Counter, One(|it| it.posts)),
    ("tcpx_requests_in_flight_total",
        "Requests in flight, summed over posts: by tcpx_requests_total it is the mean.",
        Counter, One(|it| it.window_sum)),
    ("tcpx_requests_in_flight_peak", "Most requests that were ever in flight on a channel.",
        Gauge, One(|it| it.window_peak as u64)),
    ("tcpx_fragments_total", "Fragments that receives arrived in.",
        Counter, One(|it| it.fragments)),
    ("tcpx_fragments_merged_total",
        "Fragments that were merged into a neighbour before unpacking.",
        Counter, One(|it| it.fragments_merged)),
    ("tcpx_gathered_bytes_total",
        "Bytes of scattered small messages that were copied together to be sent.",
        Counter, One(|it| it.gathered_bytes)),
];

/// Channels of a NIC.
#[rustfmt::skip]
const NIC: MetricTable<ChannelReport> = &[
    ("tcpx_channels_lost_total", "Channels that were lost while work went on over others.",
        Counter, One(|it| it.lost)),
];

/// TCP connections over which the channels of a NIC send.
#[rustfmt::skip]
const TCP: MetricTable<TcpStats> = &[
    ("tcpx_tcp_connections", "Open connections on which channels send.",
        Gauge, One(|it| it.connections)),
    ("tcpx_tcp_retransmits_total", "Segments that the kernel has sent again.",
        Counter, One(|it| it.retransmits)),
    ("tcpx_tcp_rtt_seconds", "Smoothed round-trip times of the open connections.",
        Microseconds, ByLabel("of", &[
            ("all", |it| it.rtt_us_sum), ("longest", |it| it.rtt_us_max)])),
];

/// What carries the bytes of a peer.
#[rustfmt::skip]
const PEER_INFO: MetricTable<PeerTransport> = &[
    ("tcpx_peer_info", "What carries the bytes of a peer; always 1.", Gauge, One(|_| 1)),
];

/// State of a peer.
#[rustfmt::skip]
const PEER_STATE: MetricTable<PeerReport> = &[
    ("tcpx_peer_state", "State of a peer in words; always 1.", Gauge, One(|_| 1)),
];

/// Current peers. The counters of a peer go with it; the session's sums stay.
#[rustfmt::skip]
const PEER: MetricTable<PeerReport> = &[
    ("tcpx_peer_operations", "Posted operations with a peer that have not ended.",
        Gauge, One(|it| it.operations as u64)),
    ("tcpx_peer_operation_errors_total", "Operations with a peer that ended with an error.",
        Counter, One(|it| it.errors)),
    ("tcpx_peer_kept_messages", "Messages of a peer that wait for their receives.",
        Gauge, One(|it| it.eager_kept as u64)),
    ("tcpx_peer_bytes_total", "Bytes to and from a peer, on channels and on the control link.",
        Counter, ByLabel("direction", &[
            ("sent", |it| {
                let on_link = it.eager_sent.bytes + it.one_sided.link_bytes_sent;
                on_link + sum(it, |channel| channel.send.bytes)
            }),
            ("received", |it| {
                let on_link = it.eager_received.bytes + it.one_sided.link_bytes_received;
                on_link + sum(it, |channel| channel.recv.bytes)
            })])),
];

fn sum(peer: &PeerReport, of: fn(&ChannelReport) -> u64) -> u64 {
    peer.channels.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::alarm::AlarmReport;

    fn report(name: &str) -> SessionReport {
        let stats = |bytes| ChannelStats { bytes, posts: 3, ..ChannelStats::default() };
        let channel = ChannelReport {
            nic: "eth1".into(),
            send: stats(10),
            recv: stats(u64::MAX),
            tcp: TcpStats::of_connection(2, 1_000_042),
            lost: 3,
        };
        let peer = PeerReport {
            name: "a \"b\"\\\n".into(),
            state: "up".into(),
            operations: 4,
            transport: Some(PeerTransport {
                name: "software".into(),
                channels: 2,
                ..Default::default()
            }),
            channels: vec![channel.clone()],
            ..PeerReport::default()
        };
        SessionReport {
            name: name.into(),
            device: "gpu1".into(),
            alarms: vec![AlarmReport { id: "TCPX-902".into(), count: 2, ..Default::default() }],
            nics: vec![channel],
            peers: vec![peer.clone(), peer],
            unpack_ns: 1_500_000_001,
            ..SessionReport::default()
        }
    }

    #[test]
    fn samples_say_what_the_report_says() {
        let page = metrics_text(&[SessionReport {
            encryption: "off".into(),
            not_encrypted: Some("a NIC places the bytes".into()),
            ..report("left")
        }]);
        assert!(page.contains("encryption=\"off\",not_encrypted=\"a NIC places the bytes\"} 1\n"));
        let own = "session=\"left\",device=\"gpu1\"";
        for line in [
            format!("tcpx_alarms_total{{{own},id=\"TCPX-902\"}} 2"),
            format!("tcpx_alarms_total{{{own},id=\"TCPX-815\"}} 0"),
            format!("tcpx_bytes_total{{{own},nic=\"eth1\",direction=\"sent\"}} 10"),
            // The number is written whole, though no double holds it.
            format!("tcpx_bytes_total{{{own},nic=\"eth1\",direction=\"received\"}} {}", u64::MAX),
            format!("tcpx_unpack_seconds_total{{{own}}} 1.500000001"),
            format!("tcpx_channels_lost_total{{{own},nic=\"eth1\"}} 3"),
            format!("tcpx_tcp_retransmits_total{{{own},nic=\"eth1\"}} 2"),
            format!("tcpx_tcp_rtt_seconds{{{own},nic=\"eth1\",of=\"longest\"}} 1.000042"),
            format!(
                "tcpx_peer_info{{{own},peer=\"a \\\"b\\\"\\\\\\n\",transport=\"software\",from=\"\",to=\"\",\
                 nics=\"unknown\",peer_nics=\"unknown\",channels=\"2\",chunk_bytes=\"0\",\
                 encrypted=\"false\",zero_copy=\"no\",one_sided=\"channels\"}} 1"
            ),
            format!("tcpx_peer_operations{{{own},peer=\"a \\\"b\\\"\\\\\\n\"}} 4"),
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }

    #[test]
    fn a_metric_is_declared_once_and_no_sample_is_said_twice() {
        let page = metrics_text(&[report("left"), report("right"), report("left")]);
        let mut seen = std::collections::BTreeSet::new();
        let mut declared = String::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                declared = rest.split(' ').next().unwrap().to_owned();
                assert!(seen.insert(line.to_owned()), "{line}");
            } else if !line.starts_with('#') {
                let (series, _) = line.rsplit_once(' ').unwrap();
                assert_eq!(series.split('{').next().unwrap(), declared);
                assert!(seen.insert(series.to_owned()), "{line}");
            }
        }
        assert!(page.contains("session=\"left#2\"") && !page.contains("left#3"));
    }
}
