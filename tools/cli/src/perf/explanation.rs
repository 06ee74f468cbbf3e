//! Explanation of the figures of a report: from when until when each time runs.

use super::plan::{LARGE_BYTES, Mode, Receives};
use super::rate_unit::RateUnit;
use super::report::Report;
use crate::input::ByteSize;

/// Returns the explanation of the figures.
pub(super) fn explanation(report: &Report) -> String {
    let cases = report.cases();
    let mut text = of_mode(report).to_owned();
    let has_sender =
        matches!(report.mode, Mode::Throughput | Mode::Messages(_)) && !report.is_incast();
    if has_sender && cases.iter().any(|case| case.sender.is_none()) {
        text += " No send rate is shown: the sends finished before the data arrived (buffered).";
    }
    if matches!(report.mode, Mode::Messages(_)) {
        text += &format!(
            " large: the same bytes in messages of {}, in turns; time ratio: small by large, as \
             the receiver sees them.",
            ByteSize(LARGE_BYTES)
        );
    }
    if report.receives == Receives::Go {
        text += " Posts of receives are part of the time.";
    }
    if cases.iter().any(|case| case.processor.is_some()) {
        text += " core s/GB: seconds of a core, at both ends together, for 10^9 bytes.";
    }
    if cases.iter().any(|case| case.tcp.is_some()) {
        text += " retransmits: segments that the kernels of both ends have sent again; RTT: smoothed \
                 round-trip time of the connections that carried the bytes.";
    }
    if report.idle_ms > 0 {
        text += " The idle time is subtracted.";
    }
    if report.has_baseline {
        text += " raw: plain sockets that block, in the same run, in turns";
        text += if report.mode.is_latency() {
            "; ratio: less is better."
        } else {
            "; ratio: more is better."
        };
    }
    text.replace(RateUnit::default().definition(), report.unit.definition())
}

/// Returns what the times of this kind of measurement are.
fn of_mode(report: &Report) -> &'static str {
    match report.mode {
        Mode::OneSided(one_sided) if one_sided.is_notified => {
            "As the client sees it: from posting writes to the server's memory until the server's \
             program has seen the notification behind each, and has sent word of it back. us/op: \
             mean time of an iteration by its operations; p50, p99: of one, beside those under \
             way. repost: processor time of posting it again; ratio: time by that of the same \
             bytes in one range, in turns."
        }
        Mode::OneSided(_) => {
            "As the client sees it: from posting operations on the server's memory until every \
             byte is in place, while the server's program waits. us/op: mean time of an iteration \
             by its operations; p50, p99: of one, beside those under way. repost: processor time \
             of posting it again; ratio: time by that of the same bytes in one range, in turns."
        }
        Mode::Notifications => {
            "Half of a round trip as the client sees it: from sending a notification until the \
             server's answer has been taken out."
        }
        Mode::Latency => {
            "Half of a round trip as the client sees it: from posting its send until the answer, \
             received and sent again by the server, is in place."
        }
        Mode::Bidirectional if report.is_incast() && report.is_all_to_all => {
            "GB/s (10^9 bytes a second), medians. all: the bytes of all ends, from their common \
             \"go\" until the last one is in place; least, median, most: one way of a pair."
        }
        _ if report.is_incast() => {
            "GB/s (10^9 bytes a second), medians. all: the bytes of all clients, from their common \
             \"go\" until the last byte of the last one is in place; slowest, fastest: one client."
        }
        Mode::Bidirectional => {
            "GB/s (10^9 bytes a second): median. server, client: from \"go\" until all bytes that \
             this end receives are in place; both: all bytes by the time of the later end."
        }
        Mode::Throughput | Mode::Messages(_) => {
            "GB/s (10^9 bytes a second): median. p99: 99 of 100 iterations were at least this \
             fast. recv: from the receiver's \"go\" until the last byte is in place; send: from \
             \"go\" until the send is complete."
        }
    }
}
