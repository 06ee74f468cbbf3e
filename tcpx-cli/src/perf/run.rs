//! The whole measurement, case by case, at one end.

use super::args::PerfArgs;
use super::baseline::PlainSockets;
use super::busy::OtherWork;
use super::plan::{Mode, OneSided, Plan};
use super::report::{CaseFigures, Report};
use super::stages::Stages;
use super::times::CaseTimes;
use super::{latency, notifications, one_sided, table, throughput};
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
    program.run(|report| {
        print(&if args.json { json(&report)? } else { table::render(&report) })?;
        report.mismatch().map_or(Ok(()), |mismatch| Err(Failure::NotVerified(mismatch.to_owned())))
    })
}

fn measure(agreed: &mut Agreed<'_>, plan: &Plan) -> Result<Report, Failure> {
    let mut plain = match plan.baseline {
        true => Some(PlainSockets::open(agreed, plan.mode.is_latency())?),
        false => None,
    };
    let iterations = u64::from(plan.warmup) + u64::from(plan.iterations);
    let progress = Progress::bar(iterations * plan.sizes.len() as u64);
    let nics = NicWatch::start(agreed.session);
    let mut cases = Vec::new();
    for case in plan.cases() {
        let before = Stages::of(agreed.session);
        let mut times = match plan.mode {
            Mode::Throughput | Mode::Messages(_) => {
                throughput::measure(agreed, case, plain.as_mut(), &progress)?
            }
            Mode::Latency => {
                latency::measure(agreed, case, plain.as_ref().map(PlainSockets::first), &progress)?
            }
            Mode::OneSided(one_sided) => one_sided::measure(agreed, case, one_sided, &progress)?,
            Mode::Notifications => notifications::measure(agreed, case, &progress)?,
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
    let is_complete = |times: &CaseTimes, role| {
        let counts = [&times.session_ns, &times.large_ns, &times.raw_ns].map(Vec::len);
        let has_reposts = plan.mode.one_sided().is_some() && role == Role::Client;
        counts == series(plan, role) && times.repost_ns.is_empty() != has_reposts
    };
    if is_complete(&client, Role::Client) && is_complete(&server, Role::Server) {
        return Ok((client, server));
    }
    Err(Failure::OtherEnd(format!(
        "it sent {} and {} times for {} iterations",
        client.session_ns.len(),
        server.session_ns.len(),
        plan.iterations
    )))
}

/// How many times an end has of the session, of the large messages, and of plain sockets.
fn series(plan: &Plan, role: Role) -> [usize; 3] {
    let iterations = plan.iterations as usize;
    let only_if = |measured: bool| if measured { iterations } else { 0 };
    match plan.mode {
        Mode::Throughput | Mode::Latency | Mode::Notifications => {
            [iterations, 0, only_if(plan.baseline)]
        }
        Mode::Messages(_) => [iterations, iterations, only_if(plan.baseline)],
        // The server's program does nothing that could be measured.
        Mode::OneSided(_) if role == Role::Server => [0; 3],
        Mode::OneSided(OneSided { descriptors, .. }) => [iterations, only_if(descriptors > 1), 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::plan::{Batch, Direction, Receives};
    use crate::rendezvous::connect_both;

    /// Both ends in this process, each with its own idea of the payload.
    fn measure_both(mode: Mode, client_seed: u64, server_seed: u64) -> [Report; 2] {
        let receives = match mode {
            Mode::Messages(_) => Receives::Go,
            Mode::Latency => Receives::Late,
            Mode::Throughput | Mode::OneSided(_) | Mode::Notifications => Receives::Ahead,
        };
        let plan = |seed| {
            let (sizes, baseline) = (vec![5000], mode.op() == "send");
            let (idle_ms, busy) = (u32::from(mode == Mode::Latency), 0);
            Plan { mode, sizes, iterations: 2, warmup: 1, seed, baseline, receives, idle_ms, busy }
        };
        connect_both(|agreed| {
            let seed = if agreed.role == Role::Client { client_seed } else { server_seed };
            measure(agreed, &plan(seed)).unwrap()
        })
    }

    fn one_sided(direction: Direction, is_latency: bool) -> Mode {
        let depth = if is_latency { 1 } else { 3 };
        let (descriptors, is_scattered) = (20, true);
        Mode::OneSided(OneSided { direction, depth, descriptors, is_scattered, is_latency })
    }

    #[test]
    fn bytes_that_are_not_what_was_sent_show_at_both_ends() {
        let [sent, received] = measure_both(Mode::Throughput, 1, 2);
        let batch = Mode::Messages(Batch { messages: 20, is_scattered: true });
        let others = [batch, one_sided(Direction::Write, true), one_sided(Direction::Read, false)];
        let others = others.into_iter().flat_map(|mode| measure_both(mode, 1, 2));
        for report in [sent, received].into_iter().chain(others) {
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
        let sends = [Mode::Throughput, Mode::Latency, batch(false), batch(true)];
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
