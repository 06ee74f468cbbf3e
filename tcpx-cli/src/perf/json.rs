//! The report as one JSON object. GB is 10^9 bytes, times are in the unit of their name.

use serde::Serialize;
use tcpx_doctor::NicGrowth;

use super::plan::{LARGE_BYTES, Mode};
use super::report::{Case, Report};
use super::samples::{Samples, gb_per_s, micros, millis};
use super::stages::Shares;
use crate::failure::Failure;
use crate::session::Memory;

/// Everything of a run.
#[derive(Serialize)]
struct Run<'a> {
    transport: &'a str,
    plugin_name: &'a str,
    memory: Memory,
    unpack: &'a str,
    chunk_bytes: u32,
    channels: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    scattered: Option<bool>,
    iterations: u32,
    seed: u64,
    /// Of a sweep, the largest size.
    #[serde(flatten)]
    case: CaseFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<Vec<CaseFigures>>,
    /// What the NICs at this end counted meanwhile; `devmem_packets` is null where the driver does
    /// not count them.
    nic_counters: &'a [NicGrowth],
}

/// One size.
#[derive(Serialize)]
struct CaseFigures {
    size_bytes: u64,
    verified: bool,
    #[serde(flatten)]
    batch: Option<BatchFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<Throughput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<Throughput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_socket: Option<Throughput>,
    /// Throughput: session by plain sockets, as the receiver sees them.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_to_raw: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<RoundTrips>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_latency_us: Option<RoundTrips>,
    /// Where the time went, as shares of 1, and what bounds the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<Shares>,
    /// Round trips: session by plain sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ratio_to_raw: Option<f64>,
}

/// Many messages, beside the same bytes in few.
#[derive(Serialize)]
struct BatchFigures {
    messages: u64,
    /// Time of the batch by their number, as the receiver sees it.
    us_per_message: f64,
    large_message_bytes: u64,
    large_messages: Throughput,
    /// Time of the batch by that of the large messages, as the receiver sees them.
    time_ratio_to_large_messages: Option<f64>,
}

#[derive(Serialize)]
struct Throughput {
    gb_per_s_median: f64,
    gb_per_s_min: f64,
    gb_per_s_max: f64,
    /// Reached by 99 of 100 iterations.
    gb_per_s_p99: f64,
    mean_ms: f64,
    iteration_ms: Vec<f64>,
}

#[derive(Serialize)]
struct RoundTrips {
    p50: f64,
    p99: f64,
    min: f64,
    max: f64,
}

/// One line.
pub(super) fn render(report: &Report) -> Result<String, Failure> {
    let figures = |case| CaseFigures::new(report.mode, case);
    let largest = report.cases.iter().max_by_key(|case| case.bytes).cloned().unwrap_or_default();
    let mut case = figures(&largest);
    case.verified = report.first_mismatch().is_none();
    let run = Run {
        transport: &report.transport,
        plugin_name: &report.plugin_name,
        memory: report.memory,
        unpack: &report.unpack,
        chunk_bytes: report.chunk_bytes,
        channels: report.channels,
        scattered: match report.mode {
            Mode::Messages(batch) => Some(batch.is_scattered),
            Mode::Throughput | Mode::Latency => None,
        },
        iterations: report.iterations,
        seed: report.seed,
        case,
        sweep: report.is_sweep.then(|| report.cases.iter().map(figures).collect()),
        nic_counters: &report.nics,
    };
    serde_json::to_string(&run)
        .map_err(|error| Failure::Io { what: "writing JSON".into(), error: error.into() })
}

impl CaseFigures {
    fn new(mode: Mode, case: &Case) -> Self {
        let is_throughput = mode != Mode::Latency;
        let rates = |samples: &Samples| {
            (is_throughput && !samples.is_empty())
                .then(|| Throughput::new(case.total_bytes(), samples))
        };
        let trips = |samples: &Samples| {
            (!is_throughput && !samples.is_empty()).then(|| RoundTrips::new(samples))
        };
        Self {
            size_bytes: case.bytes,
            verified: case.mismatch.is_none(),
            batch: rates(&case.large).map(|large_messages| BatchFigures {
                messages: case.messages,
                us_per_message: case.message_us(),
                large_message_bytes: LARGE_BYTES,
                large_messages,
                time_ratio_to_large_messages: case.small_message_ratio(),
            }),
            sender: rates(&case.sender),
            receiver: rates(&case.receiver),
            raw_socket: rates(&case.raw),
            stages: case.shares.clone(),
            ratio_to_raw: is_throughput.then(|| case.throughput_ratio()).flatten(),
            latency_us: trips(&case.sender),
            raw_latency_us: trips(&case.raw),
            latency_ratio_to_raw: (!is_throughput).then(|| case.latency_ratio()).flatten(),
        }
    }
}

impl Throughput {
    fn new(bytes: u64, samples: &Samples) -> Self {
        Self {
            gb_per_s_median: gb_per_s(bytes, samples.median()),
            gb_per_s_min: gb_per_s(bytes, samples.longest()),
            gb_per_s_max: gb_per_s(bytes, samples.shortest()),
            gb_per_s_p99: gb_per_s(bytes, samples.percentile(99)),
            mean_ms: millis(samples.mean()),
            iteration_ms: samples.times().iter().copied().map(millis).collect(),
        }
    }
}

impl RoundTrips {
    fn new(samples: &Samples) -> Self {
        Self {
            p50: micros(samples.percentile(50)),
            p99: micros(samples.percentile(99)),
            min: micros(samples.shortest()),
            max: micros(samples.longest()),
        }
    }
}
