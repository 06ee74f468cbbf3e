//! Figures of one size, as the JSON object has them: GB is 10^9 bytes, times are in the unit of
//! their name.

use serde::Serialize;

use super::case::PlannedCase;
use super::histogram::{self, Bucket};
use super::intervals::Interval;
use super::nic_traffic::NicTraffic;
use super::one_sided::Turns;
use super::pair_times::{EachWay, PairTimes};
use super::plan::{LARGE_BYTES, Mode};
use super::processor::ProcessorFigures;
use super::rates::{Percentiles, Throughput};
use super::samples::Samples;
use super::stages::StageShares;
use super::tcp::TcpFigures;
use super::times::CaseTimes;
use crate::rendezvous::Role;

/// Least part of the receive's time that a send takes if it ends with its bytes at the receiver.
const AS_LONG: f64 = 0.9;

/// Figures of one size.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct CaseFigures {
    /// Bytes of one message.
    pub(super) size_bytes: u64,
    /// Counted iterations.
    pub(super) iterations: u64,
    pub(super) verified: bool,
    #[serde(skip)]
    pub(super) mismatch: Option<String>,
    #[serde(flatten)]
    pub(super) batch: Option<BatchFigures>,
    #[serde(flatten)]
    pub(super) one_sided: Option<OneSidedFigures>,
    /// The receives, of the server unless it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receiver: Option<Throughput>,
    /// The sends, if they end with the bytes at the receiver. Where buffers accept the bytes
    /// sooner, their time says nothing about the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sender: Option<Throughput>,
    /// One way each at once: the client's receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_receiver: Option<Throughput>,
    /// Both ways barrier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) both_ways: Option<Throughput>,
    /// Several clients at once.
    #[serde(flatten)]
    pub(super) incast: Option<IncastFigures>,
    /// All to all: pairs of this client with later ones.
    #[serde(skip)]
    pub(super) later_pairs: Option<PairTimes>,
    /// Receives over plain sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_socket: Option<Throughput>,
    /// Throughput: session by plain sockets, as the receiver sees them. More is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to_raw: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) half_round_trip_us: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_half_round_trip_us: Option<Percentiles>,
    /// Histogram of half round trips, or of operations, by their time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) histogram: Vec<Bucket>,
    /// Messages or operations a second, by the median of the main rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ops_per_s: Option<f64>,
    /// Rates meanwhile, where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) intervals: Vec<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) processor: Option<ProcessorFigures>,
    /// Connections of both ends; `None` where the plugin does not show them.
    pub(super) tcp: Option<TcpFigures>,
    /// Traffic of each NIC at this end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nics: Vec<NicTraffic>,
    /// Breakdown of the time, as shares of 1, and the bound of the run; warmup included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stages: Option<StageShares>,
    /// Round trips: session by plain sockets. Less is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ratio_to_raw: Option<f64>,
}

/// All clients of a server, which send at once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct IncastFigures {
    /// From the common "go" until the last client's last byte is in place.
    pub(super) all_clients: Throughput,
    /// Median of the client whose bytes came last, and of the one whose came first.
    pub(super) slowest_client_gb_per_s: f64,
    pub(super) fastest_client_gb_per_s: f64,
    /// All to all: each way of all pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) each_way: Option<EachWay>,
}

/// Many messages, beside the same bytes in few.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BatchFigures {
    pub(super) messages: u64,
    /// Time of the batch by their number, as the receiver sees it.
    pub(super) us_per_message: f64,
    large_message_bytes: u64,
    pub(super) large_messages: Throughput,
    /// Time of the batch by that of the large messages, as the receiver sees them. Less is better.
    pub(super) time_ratio_to_large_messages: f64,
}

/// Operations on the server's memory, as the client sees them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OneSidedFigures {
    /// Of one iteration.
    operations: u64,
    /// Of many under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initiator: Option<Throughput>,
    /// From the post of one until it is done, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operation_us: Option<Percentiles>,
    /// From the post of one until it was seen to be done, of many under way, the oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) under_way_us: Option<Percentiles>,
    /// Processor time of the posting thread for a repeated post.
    pub(super) repost_us: Option<Percentiles>,
    /// Time by that of operations of the same bytes in one range. Less is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_ratio_to_one_range: Option<f64>,
}

impl CaseFigures {
    /// Returns the figures by the times of both ends. `case`: any part of the case.
    pub(super) fn new(
        case: PlannedCase<'_>,
        channels: u16,
        client: &CaseTimes,
        server: &CaseTimes,
    ) -> Self {
        let mismatch = server.mismatch.clone().or_else(|| client.mismatch.clone());
        let verified = mismatch.is_none();
        let iterations = client.session_ns.len() as u64;
        let size_bytes = case.bytes;
        let tcp = TcpFigures::new(&client.connections, &server.connections);
        let figures = Self { size_bytes, iterations, verified, mismatch, tcp, ..Self::default() };
        if let Some(one_sided) = case.plan.mode.one_sided() {
            let operations = Turns::new(&case, one_sided).operations();
            let times = if one_sided.is_latency { client.session_ns.as_slice() } else { &[] };
            let histogram = histogram::of(times);
            let one_sided = Some(OneSidedFigures::new(case, operations, client));
            return Self { one_sided, histogram, ..figures };
        }
        if case.plan.mode.is_latency() {
            let own = half_trips(&client.session_ns, &server.session_ns);
            let raw = half_trips(&client.raw_ns, &server.raw_ns);
            return Self {
                histogram: own.as_ref().map_or_else(Vec::new, |own| histogram::of(own.all())),
                half_round_trip_us: own.as_ref().map(Percentiles::new),
                raw_half_round_trip_us: raw.as_ref().map(Percentiles::new),
                latency_ratio_to_raw: ratio(&own, &raw),
                ..figures
            };
        }
        figures.with_throughput(case, channels, client, server)
    }

    fn with_throughput(
        self,
        case: PlannedCase<'_>,
        channels: u16,
        client: &CaseTimes,
        server: &CaseTimes,
    ) -> Self {
        if case.plan.mode == Mode::Bidirectional {
            return self.with_both_ways(case, client, server);
        }
        let (sender, receiver) = match case.plan.sender() {
            Role::Client => (client, server),
            Role::Server => (server, client),
        };
        let sent = Samples::new(&sender.session_ns);
        let [received, large, raw] = [&receiver.session_ns, &receiver.large_ns, &receiver.raw_ns]
            .map(|times| Samples::new(times));
        let rates = |times: &[u64]| Throughput::new(case.total_bytes(), times);
        let median = received.as_ref().map_or(0, Samples::median);
        Self {
            batch: rates(&receiver.large_ns).map(|large_messages| BatchFigures {
                messages: case.messages(),
                us_per_message: median as f64 / 1e3 / case.messages() as f64,
                large_message_bytes: LARGE_BYTES,
                large_messages,
                time_ratio_to_large_messages: ratio(&received, &large).unwrap_or_default(),
            }),
            sender: rates(&sender.session_ns)
                .filter(|_| ratio(&sent, &received).is_some_and(|time| time >= AS_LONG)),
            receiver: rates(&receiver.session_ns),
            raw_socket: rates(&receiver.raw_ns),
            ratio_to_raw: ratio(&raw, &received),
            stages: match case.plan.mode {
                Mode::Throughput => StageShares::new(&sender.stages, &receiver.stages, channels),
                _ => None,
            },
            ..self
        }
    }

    fn with_both_ways(self, case: PlannedCase<'_>, client: &CaseTimes, server: &CaseTimes) -> Self {
        let bytes = case.total_bytes();
        let both = client.session_ns.iter().zip(&server.session_ns);
        let both: Vec<u64> = both.map(|(there, here)| *there.max(here)).collect();
        Self {
            receiver: Throughput::new(bytes, &server.session_ns),
            client_receiver: Throughput::new(bytes, &client.session_ns),
            both_ways: Throughput::new(2 * bytes, &both),
            ..self
        }
    }

    /// Counts messages, or operations of this many ranges, by the main rate.
    pub(super) fn count_operations(&mut self, ranges: u32) {
        let bytes = (self.size_bytes * u64::from(ranges)).max(1) as f64;
        self.ops_per_s = self.rate().map(|rate| rate.gb_per_s_median * 1e9 / bytes);
    }

    /// Returns the main rate of the case, if it has one.
    pub(super) fn rate(&self) -> Option<&Throughput> {
        let initiator = self.one_sided.as_ref().and_then(|figures| figures.initiator.as_ref());
        let all_clients = self.incast.as_ref().map(|figures| &figures.all_clients);
        self.both_ways.as_ref().or(all_clients).or(self.receiver.as_ref()).or(initiator)
    }

    /// Returns the main latency of the case, if it has one.
    pub(super) fn latency(&self) -> Option<&Percentiles> {
        let operation = self
            .one_sided
            .as_ref()
            .and_then(|it| it.operation_us.as_ref().or(it.under_way_us.as_ref()));
        self.half_round_trip_us.as_ref().or(operation)
    }
}

impl OneSidedFigures {
    /// Returns the mean time of an iteration by its operations, in microseconds, of many under way.
    pub(super) fn mean_us(&self) -> Option<f64> {
        let rates = self.initiator.as_ref()?;
        Some(rates.mean_ms * 1e3 / self.operations as f64)
    }

    fn new(case: PlannedCase<'_>, operations: u64, client: &CaseTimes) -> Self {
        let [own, one_range, reposts] = [&client.session_ns, &client.large_ns, &client.repost_ns]
            .map(|times| Samples::new(times));
        let is_latency = case.plan.mode.is_latency();
        let bytes = case.total_bytes() * operations;
        Self {
            operations,
            initiator: if is_latency { None } else { Throughput::new(bytes, &client.session_ns) },
            operation_us: own.as_ref().filter(|_| is_latency).map(Percentiles::new),
            under_way_us: Samples::new(&client.under_way_ns).as_ref().map(Percentiles::new),
            repost_us: reposts.as_ref().map(Percentiles::new),
            time_ratio_to_one_range: ratio(&own, &one_range),
        }
    }
}

/// Returns halves of round trips, without the time for which the server held the messages.
fn half_trips(trips: &[u64], held: &[u64]) -> Option<Samples> {
    let half = |(trip, held): (&u64, &u64)| trip.saturating_sub(*held) / 2;
    Samples::new(&trips.iter().zip(held).map(half).collect::<Vec<u64>>())
}

fn ratio(over: &Option<Samples>, under: &Option<Samples>) -> Option<f64> {
    Some(over.as_ref()?.ratio(under.as_ref()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::operations::{Direction, OneSided};
    use crate::perf::plan::{Batch, Plan, Receives};

    fn figures(mode: Mode, raw: bool) -> CaseFigures {
        let plan = Plan {
            mode,
            sizes: vec![4096],
            iterations: 1,
            duration_ms: None,
            interval_ms: None,
            warmup: 0,
            seed: 1,
            baseline: raw,
            receives: Receives::Ahead,
            idle_ms: 0,
            busy: 0,
            reverse: false,
            is_all_to_all: false,
        };
        let times = |session: &[u64], large_ns, raw_ns| CaseTimes {
            session_ns: session.to_vec(),
            large_ns,
            repost_ns: vec![4, 2, 3],
            raw_ns: if raw { raw_ns } else { vec![] },
            ..CaseTimes::default()
        };
        // In round trips the server's times are those for which it held the messages.
        let is_latency = mode.is_latency();
        let client = times(&[30, 10, 20], vec![7], vec![5]);
        let large = if matches!(mode, Mode::Messages(_)) { vec![16] } else { vec![] };
        let server = if is_latency { [2, 4, 0].as_slice() } else { &[40] };
        let server = times(server, large, vec![if is_latency { 1 } else { 32 }]);
        CaseFigures::new(PlannedCase::whole(&plan), 2, &client, &server)
    }

    #[test]
    fn ratios_compare_what_can_be_compared() {
        let throughput = figures(Mode::Throughput, true);
        assert_eq!(throughput.ratio_to_raw, Some(0.8), "receiver to receiver");
        assert!(throughput.sender.is_none(), "it took half the time: buffers took the bytes");
        assert!(throughput.batch.is_none() && throughput.latency_ratio_to_raw.is_none());
        let latency = figures(Mode::Latency, true);
        let p50 = latency.half_round_trip_us.as_ref().unwrap().p50;
        assert_eq!(p50, 0.01, "the halves of 28, 6 and 20 ns");
        assert_eq!(latency.latency_ratio_to_raw, Some(5.0), "round trip to round trip");
        assert!(latency.sender.is_none() && latency.ratio_to_raw.is_none());
        let notifications = figures(Mode::Notifications, false);
        assert_eq!(notifications.half_round_trip_us.unwrap().p50, 0.01);
        let batch = figures(Mode::Messages(Batch { messages: 2, is_scattered: false }), false);
        assert_eq!(batch.ratio_to_raw, None);
        assert_eq!(batch.receiver.unwrap().gb_per_s_median, 8192.0 / 40.0, "both messages");
        let batch = batch.batch.unwrap();
        assert_eq!(batch.time_ratio_to_large_messages, 2.5, "small by large messages");
        assert_eq!((batch.messages, batch.us_per_message), (2, 0.02));
    }

    #[test]
    fn operations_are_counted_as_the_client_sees_them() {
        let one_sided = |descriptors, is_latency| {
            let (direction, depth, is_scattered) = (Direction::Write, 1, false);
            let is_notified = true;
            let mode =
                OneSided { direction, depth, descriptors, is_scattered, is_latency, is_notified };
            figures(Mode::OneSided(mode), false).one_sided.unwrap()
        };
        let stream = one_sided(1, false);
        assert_eq!(stream.operations, 256);
        let rates = stream.initiator.unwrap();
        assert_eq!(rates.gb_per_s_median, 256.0 * 4096.0 / 20.0, "of 30, 10 and 20 ns");
        assert_eq!(one_sided(1, false).mean_us(), Some(0.02 / 256.0), "of an operation");
        assert_eq!(one_sided(1, true).mean_us(), None);
        assert!(stream.operation_us.is_none());
        let latency = one_sided(2, true);
        assert_eq!((latency.operations, latency.operation_us.unwrap().p50), (1, 0.02));
        assert!(latency.initiator.is_none());
        assert_eq!(latency.repost_us.unwrap().p50, 0.003);
        assert_eq!(latency.time_ratio_to_one_range, Some(20.0 / 7.0));
    }
}
