//! Whole measurement, case by case, at one end.

use std::time::{Duration, Instant};

use super::baseline::PlainSockets;
use super::case::PlannedCase;
use super::case_parts::CaseParts;
use super::figures::CaseFigures;
use super::gate::{Gate, Others};
use super::intervals::Intervals;
use super::operations::OneSided;
use super::output::Output;
use super::plan::{MAX_ITERATIONS, Mode, NextIterations, Plan};
use super::processor::ProcessorFigures;
use super::rates::Throughput;
use super::report::Report;
use super::stages::StageTimes;
use super::tcp::ConnectionCounts;
use super::times::CaseTimes;
use super::{bidirectional, host, latency, nic_traffic, notifications, one_sided, throughput};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, Role};
use crate::session::NicWatch;

/// Measures all sizes, and counts the measured iterations with `progress`. Intervals go to `output`
/// as they end, sizes to `others`.
pub(super) fn measure(
    connected: &mut ConnectedEnd<'_>,
    plan: &Plan,
    output: &Output,
    others: &Others<'_>,
    progress: &Progress,
) -> Result<Report, Failure> {
    let interrupts = Interrupts::listen()?;
    let mut plain = match plan.baseline {
        true => Some(PlainSockets::open(connected, plan.mode.is_latency())?),
        false => None,
    };
    let nics = NicWatch::start(connected.session);
    let hosts = host::exchange(connected)?;
    let mut report = Report::new(connected, plan, hosts, output.unit);
    report.kv.clone_from(&output.kv);
    // Lines of several ends would be mixed.
    report.has_intervals &= !others.gate.is_shared();
    let mut first_message = 0;
    for &bytes in &plan.sizes {
        tracing::debug!(bytes, "measuring");
        let mut measurement = Measurement {
            plan,
            parts: CaseParts::new(plan, bytes, first_message),
            plain: plain.as_mut(),
            gate: others.gate,
            interrupts: &interrupts,
            progress,
            output,
            report: &report,
            is_interrupted: false,
        };
        let case = measurement.run(connected)?;
        first_message = measurement.parts.next_message();
        report.interrupted = measurement.is_interrupted;
        if let Some(mut case) = case {
            (others.take_row)(connected, &report, &mut case, progress)?;
            report.add(case);
        }
        if report.interrupted {
            break;
        }
    }
    report.was_interrupted_here = interrupts.has_come();
    report.finish(nics.end(connected.session));
    Ok(report)
}

/// The measurement of one size.
struct Measurement<'a> {
    plan: &'a Plan,
    parts: CaseParts<'a>,
    plain: Option<&'a mut PlainSockets>,
    gate: Gate<'a>,
    interrupts: &'a Interrupts,
    progress: &'a Progress,
    output: &'a Output,
    /// What was measured before this size.
    report: &'a Report,
    /// Whether an end was interrupted.
    is_interrupted: bool,
}

impl Measurement<'_> {
    /// Measures all parts. Returns `None` if the measurement ends before the first.
    fn run(&mut self, connected: &mut ConnectedEnd<'_>) -> Result<Option<CaseFigures>, Failure> {
        let (mut client, mut server) = (CaseTimes::default(), CaseTimes::default());
        let (begun, traffic) = (Instant::now(), nic_traffic::of(connected.session));
        let (mut last, mut intervals) = (None, None);
        while let Some(counted) = self.next(connected, begun)? {
            let case = self.parts.take(counted);
            let before = (StageTimes::of(connected.session), ConnectionCounts::of(connected));
            let mut times = self.part(connected, case)?;
            times.stages = StageTimes::of(connected.session).since(&before.0);
            times.connections = ConnectionCounts::of(connected).since(&before.1);
            times.is_interrupted = self.interrupts.has_come();
            // The time of a process that does other work as well says nothing about this one.
            if self.gate.is_shared() || self.plan.busy > 0 {
                times.processor = None;
            }
            let (of_client, of_server) = exchange(connected, case, times)?;
            let (now, channels) = (begun.elapsed(), connected.channels);
            self.show_interval(&mut intervals, now, || {
                CaseFigures::new(case, channels, &of_client, &of_server)
            })?;
            self.is_interrupted |= of_client.is_interrupted || of_server.is_interrupted;
            client.add(of_client);
            server.add(of_server);
            last = Some(case);
        }
        let Some(case) = last else { return Ok(None) };
        if let Some(interval) = intervals.as_mut().and_then(Intervals::take) {
            self.output.interval(self.report, &interval, self.progress)?;
        }
        let mut figures = CaseFigures::new(case, connected.channels, &client, &server);
        figures.intervals = intervals.map_or_else(Vec::new, Intervals::into_ended);
        let bytes = figures.rate().map_or(0, Throughput::total_bytes);
        figures.processor = ProcessorFigures::new(bytes, client.processor, server.processor);
        figures.count_operations(case.plan.mode.one_sided().map_or(1, |it| it.descriptors));
        figures.nics = nic_traffic::since(
            nic_traffic::of(connected.session),
            &traffic,
            figures.rate().map(|rate| rate.gb_per_s_median),
        );
        Ok(Some(figures))
    }

    /// Adds a part that ended `now`, and prints the interval that ends with it.
    fn show_interval(
        &self,
        intervals: &mut Option<Intervals>,
        now: Duration,
        part: impl FnOnce() -> CaseFigures,
    ) -> Result<(), Failure> {
        let Some(length) = self.plan.interval() else { return Ok(()) };
        let part = part();
        let ranges = self.plan.mode.one_sided().map_or(1, |it| it.descriptors);
        let new = || Intervals::new(length, part.size_bytes, ranges);
        let intervals = intervals.get_or_insert_with(new);
        match part.rate().and_then(|rate| intervals.add(rate, now)) {
            Some(interval) => self.output.interval(self.report, &interval, self.progress),
            None => Ok(()),
        }
    }

    /// Returns the iterations that both ends count next, which the server decides; `None` when the
    /// size is complete.
    fn next(
        &mut self,
        connected: &mut ConnectedEnd<'_>,
        begun: Instant,
    ) -> Result<Option<u32>, Failure> {
        /// Proposals of the server's ends; the smallest counts.
        const END: u32 = 0;
        const NEXT_SIZE: u32 = 1;
        if connected.role == Role::Server {
            let mut proposal = match self.is_interrupted {
                true => END,
                false => self.parts.proposal(begun.elapsed()) + NEXT_SIZE,
            };
            proposal = self.gate.agree(proposal, connected.link.budget().step())?;
            let iterations = proposal.saturating_sub(NEXT_SIZE);
            connected.link.send(&NextIterations { iterations, is_end: proposal == END })?;
            self.is_interrupted |= proposal == END;
            return Ok((iterations > 0).then_some(iterations));
        }
        let NextIterations { iterations, is_end } = connected.link.receive()?;
        self.is_interrupted |= is_end;
        if iterations > MAX_ITERATIONS {
            return Err(Failure::OtherEnd(format!("it requests {iterations} iterations at once")));
        }
        let said = if is_end { END } else { iterations + NEXT_SIZE };
        self.gate.agree(said, connected.link.budget().step())?;
        Ok((iterations > 0).then_some(iterations))
    }

    fn part(
        &mut self,
        connected: &mut ConnectedEnd<'_>,
        case: PlannedCase<'_>,
    ) -> Result<CaseTimes, Failure> {
        let (progress, gate) = (self.progress, self.gate);
        match self.plan.mode {
            Mode::Throughput | Mode::Messages(_) => {
                let plain = self.plain.as_deref_mut();
                throughput::measure(connected, case, plain, gate, progress)
            }
            Mode::Bidirectional => bidirectional::measure(connected, case, gate, progress),
            Mode::Latency => {
                let plain = self.plain.as_deref().map(PlainSockets::first);
                latency::measure(connected, case, plain, progress)
            }
            Mode::OneSided(one_sided) => one_sided::measure(connected, case, one_sided, progress),
            Mode::Notifications => notifications::measure(connected, case, progress),
        }
    }
}

/// Exchanges the times of both ends. Returns the client's times, then the server's.
fn exchange(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    own: CaseTimes,
) -> Result<(CaseTimes, CaseTimes), Failure> {
    connected.link.send(&own)?;
    let theirs = connected.link.receive()?;
    let (client, server) = match connected.role {
        Role::Client => (own, theirs),
        Role::Server => (theirs, own),
    };
    let is_complete = |times: &CaseTimes, role| {
        let counts = [&times.session_ns, &times.large_ns, &times.raw_ns].map(Vec::len);
        let is_initiator = case.plan.mode.one_sided().is_some() && role == Role::Client;
        let has_reposts = is_initiator && case.is_first;
        counts == series(case, role) && times.repost_ns.is_empty() != has_reposts
    };
    if is_complete(&client, Role::Client) && is_complete(&server, Role::Server) {
        return Ok((client, server));
    }
    Err(Failure::OtherEnd(format!(
        "it sent {} and {} times for {} iterations",
        client.session_ns.len(),
        server.session_ns.len(),
        case.counted()
    )))
}

/// Returns the numbers of times that an end has of the session, of the large messages, and of plain
/// sockets.
fn series(case: PlannedCase<'_>, role: Role) -> [usize; 3] {
    let (plan, iterations) = (case.plan, case.counted() as usize);
    let only_if = |measured: bool| if measured { iterations } else { 0 };
    match plan.mode {
        Mode::Throughput | Mode::Bidirectional | Mode::Latency | Mode::Notifications => {
            [iterations, 0, only_if(plan.baseline)]
        }
        Mode::Messages(_) => [iterations, iterations, only_if(plan.baseline)],
        // The server's program only waits.
        Mode::OneSided(_) if role == Role::Server => [0; 3],
        Mode::OneSided(OneSided { descriptors, .. }) => [iterations, only_if(descriptors > 1), 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::json;
    use crate::perf::operations::Direction;
    use crate::perf::plan::{Batch, Receives};
    use crate::perf::rate_unit::RateUnit;
    use crate::perf::table;
    use crate::rendezvous::connect_both;

    /// Both ends in this process, each with its own idea of the payload.
    fn measure_both(mode: Mode, client_seed: u64, server_seed: u64) -> [Report; 2] {
        measure_way(mode, false, [client_seed, server_seed])
    }

    fn measure_way(mode: Mode, reverse: bool, seeds: [u64; 2]) -> [Report; 2] {
        let [client_seed, server_seed] = seeds;
        let receives = match mode {
            Mode::Messages(_) => Receives::Go,
            Mode::Latency => Receives::Late,
            _ => Receives::Ahead,
        };
        let plan = |seed| {
            let has_baseline = mode.op() == "send" && mode != Mode::Bidirectional;
            let (sizes, baseline, duration_ms) = (vec![5000], has_baseline, None);
            let (idle_ms, busy) = (u32::from(mode == Mode::Latency), 0);
            Plan {
                mode,
                sizes,
                iterations: 2,
                duration_ms,
                interval_ms: None,
                warmup: 1,
                seed,
                baseline,
                receives,
                idle_ms,
                busy,
                reverse,
                is_all_to_all: false,
            }
        };
        connect_both(|connected| {
            let seed = if connected.role == Role::Client { client_seed } else { server_seed };
            let progress = Progress::hidden();
            let plan = plan(seed);
            let output = Output::nowhere(RateUnit::default());
            let others = Others { gate: Gate::Open, take_row: &|_, _, _, _| Ok(()) };
            let report = measure(connected, &plan, &output, &others, &progress).unwrap();
            assert_eq!(progress.count_of_steps(), 2, "warmup is no progress: {mode:?}");
            report
        })
    }

    fn one_sided(direction: Direction, is_latency: bool) -> Mode {
        let depth = if is_latency { 1 } else { 3 };
        let (descriptors, is_scattered) = (20, true);
        let is_notified = false;
        Mode::OneSided(OneSided {
            direction,
            depth,
            descriptors,
            is_scattered,
            is_latency,
            is_notified,
        })
    }

    #[test]
    fn wrong_bytes_are_reported_at_both_ends() {
        let [sent, received] = measure_both(Mode::Throughput, 1, 2);
        let batch = Mode::Messages(Batch { messages: 20, is_scattered: true });
        let others = [
            batch,
            Mode::Bidirectional,
            one_sided(Direction::Write, true),
            one_sided(Direction::Read, false),
        ];
        let others = others.into_iter().flat_map(|mode| measure_both(mode, 1, 2));
        for report in [sent, received].into_iter().chain(others) {
            let mismatch = report.mismatch().unwrap();
            assert!(mismatch.contains("iteration 0: byte 0 is"), "{mismatch}");
            assert!(!mismatch.contains("never written"), "it was, with other bytes: {mismatch}");
            let json: serde_json::Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
            assert_eq!(json["verified"], false);
            assert!(table::row(&report, &report.cases()[0]).ends_with("NO"));
        }
    }

    #[test]
    fn the_server_sends_in_reverse() {
        let batch = Mode::Messages(Batch { messages: 20, is_scattered: true });
        for mode in [Mode::Throughput, batch] {
            for report in measure_way(mode, true, [3, 3]) {
                assert_eq!(report.mismatch(), None);
                let facts = table::facts(&report).replace('\n', " ");
                assert!(facts.contains("server to client"), "{facts}");
            }
            // The client has received the server's bytes, and they are not its own.
            let [client, server] = measure_way(mode, true, [1, 2]);
            assert!(client.mismatch().unwrap().contains("iteration 0: byte 0 is"));
            assert_eq!(client.mismatch(), server.mismatch());
        }
    }

    #[test]
    fn equal_payloads_are_verified_at_both_ends() {
        let batch = |is_scattered| Mode::Messages(Batch { messages: 300, is_scattered });
        let sends =
            [Mode::Throughput, Mode::Bidirectional, Mode::Latency, batch(false), batch(true)];
        let others = [false, true].into_iter().flat_map(|is_latency| {
            [Direction::Write, Direction::Read].map(|direction| one_sided(direction, is_latency))
        });
        for mode in sends.into_iter().chain(others).chain([Mode::Notifications]) {
            for report in measure_both(mode, 3, 3) {
                assert_eq!(report.mismatch(), None);
                let json = serde_json::to_value(&report).unwrap();
                assert_eq!(report.cases().len(), 1);
                if !mode.is_latency() && mode.one_sided().is_none() {
                    let times = json["receiver"]["iteration_ms"].as_array().unwrap();
                    assert_eq!(times.len(), 2, "warmup is not counted");
                }
            }
        }
    }
}
