//! Statistics as text that Prometheus reads, in its text format 0.0.4. Pure.
//!
//! - `exposition`: families, samples, labels and their escapes: how the format is written.

mod exposition;

use std::collections::BTreeMap;

use self::exposition::{Exposition, Labels};
use super::ChannelStats;
use super::alarm::Alarm;
use super::report::{PeerReport, SessionReport};

/// Statistics of sessions as text that Prometheus reads. Every sample has the labels `session`,
/// which is the session's name, and `device`. Of sessions that have both in common all but the
/// first get a number behind the name ("prefill#2").
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
    let mut names = Names::default();
    for report in reports {
        let name = names.unique((&report.name, &report.device));
        let labels = Labels::default().and("session", &name).and("device", &report.device);
        session(&mut page, &labels, report);
        messages(&mut page, &labels, report);
        one_sided(&mut page, &labels, report);
        report.nics.iter().for_each(|nic| {
            let labels = labels.and("nic", &nic.nic);
            lane(&mut page, &labels.and("direction", "sent"), &nic.send);
            lane(&mut page, &labels.and("direction", "received"), &nic.recv);
        });
        let mut names = Names::default();
        report.peers.iter().for_each(|it| {
            let name = names.unique((&it.name, ""));
            peer(&mut page, &labels.and("peer", &name), it);
        });
    }
    page.into_text()
}

/// How often each name was met. Prometheus refuses a page that says a sample twice.
#[derive(Default)]
struct Names<'a>(BTreeMap<(&'a str, &'a str), u32>);

impl<'a> Names<'a> {
    /// The name, with a number if it was met before.
    fn unique(&mut self, own: (&'a str, &'a str)) -> String {
        let count = self.0.entry(own).or_default();
        *count += 1;
        match *count {
            1 => own.0.to_owned(),
            count => format!("{}#{count}", own.0),
        }
    }
}

/// What a session is, its time and its trouble.
fn session(page: &mut Exposition, labels: &Labels, report: &SessionReport) {
    let about = labels
        .and("transport", &report.transport)
        .and("plugin", &report.plugin_name)
        .and("device_memory", &report.device_memory)
        .and("unpack", &report.unpack);
    page.gauge("tcpx_session_info", "What the session is; always 1.", &about, 1);
    page.gauge("tcpx_peers", "Peers that there are now.", labels, report.peers.len());
    let help = "Peers that failed.";
    page.counter("tcpx_peers_failed_total", help, labels, report.peers_failed);
    let help = "Peers that have ended while something still uses their memory.";
    page.gauge("tcpx_peers_parked", help, labels, report.peers_parked);
    let help = "Calls of the plugin that have not returned for more than 10 s.";
    page.gauge("tcpx_plugin_calls_hung", help, labels, report.plugin_calls_hung);
    let help = "Bytes that peers make this session keep for them, beside what is each one's own.";
    page.gauge("tcpx_kept_for_peers_bytes", help, labels, report.kept_for_peers_bytes);
    let help = "Operations that ended with an error, cancelled ones included.";
    page.counter("tcpx_operation_errors_total", help, labels, report.total.errors);
    // Also those that were never seen: what grows from nothing raises no alert.
    let help = "How often trouble began, by the id that `tcpx explain` takes.";
    for alarm in Alarm::ALL {
        let id = alarm.diagnosis().code.to_string();
        let count = report.alarms.iter().find(|seen| seen.id == id).map_or(0, |seen| seen.count);
        page.counter("tcpx_alarms_total", help, &labels.and("id", &id), count);
    }
    let help = "What the session's time went to.";
    let stages = &report.stages;
    for (stage, nanos) in [
        ("idle", stages.idle_ns),
        ("sending", stages.sending_ns),
        ("receiving", stages.receiving_ns),
        ("receiving_and_unpacking", stages.receiving_and_unpacking_ns),
        ("unpacking", stages.unpacking_ns),
        ("submitting", stages.submitting_ns),
    ] {
        page.seconds("tcpx_stage_seconds_total", help, &labels.and("stage", stage), nanos);
    }
    let help = "Batches of chunks that were unpacked, or gathered from device memory.";
    page.counter("tcpx_unpack_batches_total", help, labels, report.unpack_batches);
    let help = "Time from the submit of a batch until it was seen to be finished, summed.";
    page.seconds("tcpx_unpack_seconds_total", help, labels, report.unpack_ns);
    let help = "Memory in which scattered small sends are gathered.";
    let memory = &report.staging_memory;
    for (what, bytes) in [
        ("limit", memory.limit_bytes),
        ("allocated", memory.allocated_bytes),
        ("used", memory.used_bytes),
    ] {
        page.gauge("tcpx_staging_bytes", help, &labels.and("what", what), bytes);
    }
}

fn messages(page: &mut Exposition, labels: &Labels, report: &SessionReport) {
    let total = &report.total;
    for (direction, all, on_link) in [
        ("sent", total.messages_sent, total.eager_sent),
        ("received", total.messages_received, total.eager_received),
    ] {
        let labels = labels.and("direction", direction);
        let help = "Sends and receives that found each other, or went ahead.";
        page.counter("tcpx_messages_total", help, &labels, all);
        let help = "Those of them that travelled on the control link, which no NIC counts.";
        page.counter("tcpx_link_messages_total", help, &labels, on_link.messages);
        let help = "Bytes of messages that travelled on the control link.";
        page.counter("tcpx_link_bytes_total", help, &labels, on_link.bytes);
    }
}

/// What peers have done with exported memory, and notifications.
fn one_sided(page: &mut Exposition, labels: &Labels, report: &SessionReport) {
    let stats = &report.total.one_sided;
    for (kind, requests, bytes) in [
        ("read", stats.reads_served, stats.bytes_read),
        ("write", stats.writes_served, stats.bytes_written),
    ] {
        let labels = labels.and("kind", kind);
        let help = "Requests of peers on exported memory that are done.";
        page.counter("tcpx_served_requests_total", help, &labels, requests);
        let help = "Bytes of exported memory that peers have read and written.";
        page.counter("tcpx_served_bytes_total", help, &labels, bytes);
    }
    let help = "Bytes of reads and writes that travelled on the control link.";
    for (direction, bytes) in
        [("sent", stats.link_bytes_sent), ("received", stats.link_bytes_received)]
    {
        let labels = labels.and("direction", direction);
        page.counter("tcpx_link_operation_bytes_total", help, &labels, bytes);
    }
    let help = "Requests of peers on exported memory that were refused or stopped.";
    for (reason, count) in [
        ("key", stats.refused_key),
        ("range", stats.refused_range),
        ("access", stats.refused_access),
        ("revoked", stats.revoked),
        ("other", stats.refused_otherwise),
    ] {
        let labels = labels.and("reason", reason);
        page.counter("tcpx_refused_requests_total", help, &labels, count);
    }
    let help = "Notifications to peers, and of peers.";
    for (direction, count) in
        [("sent", stats.notifications_sent), ("received", stats.notifications_received)]
    {
        let labels = labels.and("direction", direction);
        page.counter("tcpx_notifications_total", help, &labels, count);
    }
    let help = "Notifications for which a peer had no room until it ended.";
    page.counter("tcpx_notifications_unsent_total", help, labels, stats.notifications_unsent);
    let help = "Notifications that wait for the program.";
    page.gauge("tcpx_notifications_waiting", help, labels, report.notifications_waiting);
    let help = "Ranges that peers were told of in lists of operations.";
    page.counter("tcpx_ranges_told_total", help, labels, stats.ranges_told);
}

/// What the channels of a NIC count in one direction.
fn lane(page: &mut Exposition, labels: &Labels, stats: &ChannelStats) {
    page.counter("tcpx_bytes_total", "Bytes of chunks.", labels, stats.bytes);
    page.counter(
        "tcpx_chunks_total",
        "Chunks sent, or received and unpacked.",
        labels,
        stats.chunks,
    );
    let help = "Rounds in which a chunk waited, by the reason.";
    for (reason, count) in [
        ("window", stats.window_full),
        ("credit", stats.credit_waits),
        ("plugin", stats.plugin_busy),
    ] {
        page.counter("tcpx_stalls_total", help, &labels.and("reason", reason), count);
    }
    let help = "Requests posted to the plugin.";
    page.counter("tcpx_requests_total", help, labels, stats.posts);
    let help = "Requests in flight, summed over posts: by tcpx_requests_total it is the mean.";
    page.counter("tcpx_requests_in_flight_total", help, labels, stats.window_sum);
    let help = "Most requests that were ever in flight on a channel.";
    page.gauge("tcpx_requests_in_flight_peak", help, labels, stats.window_peak);
    let help = "Fragments that receives arrived in.";
    page.counter("tcpx_fragments_total", help, labels, stats.fragments);
    let help = "Fragments that were merged into a neighbour before unpacking.";
    page.counter("tcpx_fragments_merged_total", help, labels, stats.fragments_merged);
    let help = "Bytes of scattered small messages that were copied together to be sent.";
    page.counter("tcpx_gathered_bytes_total", help, labels, stats.gathered_bytes);
}

/// A peer that there is now. What it counts is gone with it; the session's sums stay.
fn peer(page: &mut Exposition, labels: &Labels, report: &PeerReport) {
    let help = "State of a peer in words; always 1.";
    page.gauge("tcpx_peer_state", help, &labels.and("state", &report.state), 1);
    let help = "Posted operations with a peer that have not ended.";
    page.gauge("tcpx_peer_operations", help, labels, report.operations);
    let help = "Operations with a peer that ended with an error.";
    page.counter("tcpx_peer_operation_errors_total", help, labels, report.errors);
    let help = "Messages of a peer that wait for their receives.";
    page.gauge("tcpx_peer_kept_messages", help, labels, report.eager_kept);
    let channels = report.channels.iter();
    let bytes = channels.map(|channel| (channel.send.bytes, channel.recv.bytes));
    let (sent, received) = bytes
        .fold((report.eager_sent.bytes, report.eager_received.bytes), |sums, lanes| {
            (sums.0 + lanes.0, sums.1 + lanes.1)
        });
    let help = "Bytes to and from a peer, on channels and on the control link.";
    for (direction, bytes) in [("sent", sent), ("received", received)] {
        let labels = labels.and("direction", direction);
        page.counter("tcpx_peer_bytes_total", help, &labels, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::alarm::AlarmReport;
    use crate::stats::report::ChannelReport;

    fn report(name: &str) -> SessionReport {
        let stats = |bytes| ChannelStats { bytes, posts: 3, ..ChannelStats::default() };
        let channel = ChannelReport { nic: "eth1".into(), send: stats(10), recv: stats(u64::MAX) };
        let peer = PeerReport {
            name: "a \"b\"\\\n".into(),
            state: "up".into(),
            operations: 4,
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
        let page = metrics_text(&[report("left")]);
        let own = "session=\"left\",device=\"gpu1\"";
        for line in [
            format!("tcpx_alarms_total{{{own},id=\"TCPX-902\"}} 2"),
            format!("tcpx_alarms_total{{{own},id=\"TCPX-815\"}} 0"),
            format!("tcpx_bytes_total{{{own},nic=\"eth1\",direction=\"sent\"}} 10"),
            // Whole, though no double holds it.
            format!("tcpx_bytes_total{{{own},nic=\"eth1\",direction=\"received\"}} {}", u64::MAX),
            format!("tcpx_unpack_seconds_total{{{own}}} 1.500000001"),
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
