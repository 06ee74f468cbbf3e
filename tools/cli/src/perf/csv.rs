//! Report for spreadsheets: a line for each size.

use super::figures::CaseFigures;
use super::processor::ProcessorFigures;
use super::rates::{Percentiles, Throughput};
use super::report::Report;
use super::tcp::TcpFigures;

/// Name of a field, and the function that fills it; empty where it does not apply.
type Field = (&'static str, fn(&Report, &CaseFigures) -> String);

const FIELDS: [Field; 33] = [
    ("op", |report, _| report.op.to_owned()),
    ("transport", |report, _| report.transport.clone()),
    ("memory", |report, _| report.memory.to_string()),
    ("unpack", |report, _| report.unpack.clone()),
    ("chunk_bytes", |report, _| report.chunk_bytes.to_string()),
    ("channels", |report, _| report.channels.to_string()),
    ("size_bytes", |_, case| case.size_bytes.to_string()),
    ("iterations", |_, case| case.iterations.to_string()),
    ("verified", |_, case| case.verified.to_string()),
    ("gb_per_s_median", |_, case| rate(case, |rate| Some(rate.gb_per_s_median))),
    ("gb_per_s_p99", |_, case| rate(case, |rate| rate.gb_per_s_p99)),
    ("gb_per_s_min", |_, case| rate(case, |rate| Some(rate.gb_per_s_min))),
    ("gb_per_s_max", |_, case| rate(case, |rate| Some(rate.gb_per_s_max))),
    ("mean_ms", |_, case| rate(case, |rate| Some(rate.mean_ms))),
    ("sender_gb_per_s_median", |_, case| {
        text(case.sender.as_ref().map(|rate| rate.gb_per_s_median))
    }),
    ("raw_gb_per_s_median", |_, case| {
        text(case.raw_socket.as_ref().map(|rate| rate.gb_per_s_median))
    }),
    ("p50_us", |_, case| latency(case, |times| Some(times.p50))),
    ("p90_us", |_, case| latency(case, |times| times.p90)),
    ("p99_us", |_, case| latency(case, |times| times.p99)),
    ("p99_9_us", |_, case| latency(case, |times| times.p99_9)),
    ("min_us", |_, case| latency(case, |times| Some(times.min))),
    ("max_us", |_, case| latency(case, |times| Some(times.max))),
    ("raw_p50_us", |_, case| text(case.raw_half_round_trip_us.as_ref().map(|times| times.p50))),
    ("bound_by", |_, case| {
        case.stages.as_ref().map_or_else(String::new, |shares| shares.bound_by.name().to_owned())
    }),
    ("ops_per_s", |_, case| text(case.ops_per_s)),
    ("client_cores", |_, case| processor(case, |figures| figures.client_cores)),
    ("server_cores", |_, case| processor(case, |figures| figures.server_cores)),
    ("core_s_per_gb", |_, case| processor(case, |figures| figures.core_s_per_gb)),
    ("retransmits", |_, case| tcp(case, |figures| figures.retransmits as f64)),
    ("rtt_us_mean", |_, case| tcp(case, |figures| figures.rtt_us_mean)),
    ("rtt_us_max", |_, case| tcp(case, |figures| figures.rtt_us_max as f64)),
    ("model", |report, _| report.kv.as_ref().map_or_else(String::new, |kv| kv.model_name())),
    ("depth", |report, _| report.depth.map_or_else(String::new, |depth| depth.to_string())),
];

/// Returns the first line.
pub(super) fn heading() -> String {
    FIELDS.map(|(name, _)| name).join(",")
}

/// Returns the line of one size.
pub(super) fn row(report: &Report, case: &CaseFigures) -> String {
    FIELDS.map(|(_, fill)| fill(report, case)).join(",")
}

fn rate(case: &CaseFigures, pick: fn(&Throughput) -> Option<f64>) -> String {
    text(case.rate().and_then(pick))
}

fn latency(case: &CaseFigures, pick: fn(&Percentiles) -> Option<f64>) -> String {
    text(case.latency().and_then(pick))
}

fn processor(case: &CaseFigures, pick: fn(&ProcessorFigures) -> f64) -> String {
    text(case.processor.as_ref().map(pick))
}

fn tcp(case: &CaseFigures, pick: fn(&TcpFigures) -> f64) -> String {
    text(case.tcp.as_ref().map(pick))
}

fn text(figure: Option<f64>) -> String {
    figure.map_or_else(String::new, |figure| format!("{figure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_a_comma() {
        assert_eq!(heading().split(',').count(), FIELDS.len());
    }
}
