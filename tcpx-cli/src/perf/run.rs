//! The whole measurement, case by case, at one end.

use super::args::PerfArgs;
use super::baseline::PlainSockets;
use super::busy::OtherWork;
use super::plan::{Mode, Plan};
use super::report::{CaseFigures, Report};
use super::stages::Stages;
use super::times::CaseTimes;
use super::{latency, table, throughput};
use crate::failure::Failure;
use crate::output::{Progress, json, print};
use crate::rendezvous::{Agreed, Program, Role};
use crate::session::NicWatch;

/// Measures, and prints what both ends saw.
pub(crate) fn run(args: &PerfArgs) -> Result<(), Failure> {
    let program = Program {
        command: "perf",
        ends: &args.ends,
        is_over_plugin: false,
        make_plan: &|| args.plan(),
        check_plan: &|plan| args.insist(plan),
        body: &|agreed, plan| {
            // Two ends on one machine have their other work from the one that was started first.
            let busy = if args.ends.is_started_end() { 0 } else { plan.busy };
            let _other_work = OtherWork::start(busy)?;
            measure(agreed, plan)
        },
    };
    let Some(report) = program.run()? else { return Ok(()) };
    print(&if args.json { json(&report)? } else { table::render(&report) })?;
    report.mismatch().map_or(Ok(()), |mismatch| Err(Failure::NotVerified(mismatch.to_owned())))
}

fn measure(agreed: &mut Agreed<'_>, plan: &Plan) -> Result<Report, Failure> {
    let is_latency = plan.mode == Mode::Latency;
    let mut plain = match plan.baseline {
        true => Some(PlainSockets::open(agreed, is_latency)?),
        false => None,
    };
    let iterations = u64::from(plan.warmup) + u64::from(plan.iterations);
    let progress = Progress::bar(iterations * plan.sizes.len() as u64);
    let nics = NicWatch::start(agreed.session);
    let mut cases = Vec::new();
    for case in plan.cases() {
        let before = Stages::of(agreed.session);
        let mut times = if is_latency {
            latency::measure(agreed, case, plain.as_ref().map(PlainSockets::first), &progress)?
        } else {
            throughput::measure(agreed, case, plain.as_mut(), &progress)?
        };
        times.stages = Stages::of(agreed.session).since(&before);
        let (client, server) = exchange(agreed, plan, times)?;
        cases.push(CaseFigures::new(case, agreed.channels, &client, &server));
    }
    Ok(Report::new(agreed, plan, cases, nics.end(agreed.session)))
}

/// Both ends tell each other what they measured. Returns the client's times, then the server's.
fn exchange(
    agreed: &mut Agreed<'_>,
    plan: &Plan,
    own: CaseTimes,
) -> Result<(CaseTimes, CaseTimes), Failure> {
    let (client, server) = match agreed.role {
        Role::Client => {
            agreed.link.send(&own)?;
            (own, agreed.link.receive()?)
        }
        Role::Server => {
            let client = agreed.link.receive()?;
            agreed.link.send(&own)?;
            (client, own)
        }
    };
    let iterations = plan.iterations as usize;
    let large = if matches!(plan.mode, Mode::Messages(_)) { iterations } else { 0 };
    let raw = if plan.baseline { iterations } else { 0 };
    let is_complete = |times: &CaseTimes| {
        let counts = [&times.session_ns, &times.large_ns, &times.raw_ns].map(Vec::len);
        counts == [iterations, large, raw]
    };
    if is_complete(&client) && is_complete(&server) {
        return Ok((client, server));
    }
    Err(Failure::OtherEnd(format!(
        "it sent {} times for {iterations} iterations",
        client.session_ns.len().min(server.session_ns.len()),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::plan::{Batch, Receives};
    use crate::rendezvous::connect_both;

    /// Both ends in this process, each with its own idea of the payload.
    fn measure_both(mode: Mode, client_seed: u64, server_seed: u64) -> [Report; 2] {
        let receives = match mode {
            Mode::Messages(_) => Receives::Go,
            Mode::Throughput => Receives::Ahead,
            Mode::Latency => Receives::Late,
        };
        let plan = |seed| {
            let (sizes, baseline) = (vec![5000], true);
            let (idle_ms, busy) = (u32::from(mode == Mode::Latency), 0);
            Plan { mode, sizes, iterations: 2, warmup: 1, seed, baseline, receives, idle_ms, busy }
        };
        connect_both(|agreed| {
            let seed = if agreed.role == Role::Client { client_seed } else { server_seed };
            measure(agreed, &plan(seed)).unwrap()
        })
    }

    #[test]
    fn bytes_that_are_not_what_was_sent_show_at_both_ends() {
        let [sent, received] = measure_both(Mode::Throughput, 1, 2);
        let batch = Mode::Messages(Batch { messages: 20, is_scattered: true });
        for report in [sent, received].into_iter().chain(measure_both(batch, 1, 2)) {
            let mismatch = report.mismatch().unwrap();
            assert!(mismatch.contains("iteration 0: byte 0 is"), "{mismatch}");
            assert!(!mismatch.contains("never written"), "it was, with other bytes: {mismatch}");
            let json: serde_json::Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
            assert_eq!(json["verified"], false);
            assert!(table::render(&report).lines().nth(1).unwrap().ends_with("NO"));
        }
    }

    #[test]
    fn equal_payloads_are_verified_at_both_ends() {
        let batch = |is_scattered| Mode::Messages(Batch { messages: 300, is_scattered });
        for mode in [Mode::Throughput, Mode::Latency, batch(false), batch(true)] {
            for report in measure_both(mode, 3, 3) {
                assert_eq!(report.mismatch(), None);
                let json = serde_json::to_value(&report).unwrap();
                assert_eq!(report.cases().len(), 1);
                if mode != Mode::Latency {
                    let times = json["receiver"]["iteration_ms"].as_array().unwrap();
                    assert_eq!(times.len(), 2, "warmup is not counted");
                }
            }
        }
    }
}
