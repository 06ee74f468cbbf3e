//! Measurement with two ends, from the rendezvous to the goodbye.

use super::all_to_all::{self, Group, Introductions};
use super::args::PerfArgs;
use super::busy::BusyThreads;
use super::figures::CaseFigures;
use super::gate::{Gate, Others};
use super::incast::{self, Incast};
use super::measurement::measure;
use super::output::Output;
use super::plan::Plan;
use super::report::Report;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, Program, Role, ServerPort, SeveralClients};

/// Returns the result of a command that has printed this report.
pub(super) fn outcome(report: &Report) -> Result<(), Failure> {
    match report.mismatch() {
        Some(mismatch) => Err(Failure::NotVerified(mismatch.to_owned())),
        None if report.was_interrupted_here => Err(Failure::Interrupted),
        None => Ok(()),
    }
}

/// Runs a measurement. Rows go to `output` as they are measured; `print` gets the whole report.
pub(super) fn measure_ends(
    args: &PerfArgs,
    output: &Output,
    print: impl Fn(Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let clients = args.clients()?;
    let incast = (clients > 1).then(|| Incast::new(clients));
    let program = Program {
        command: "perf",
        ends: &args.ends,
        is_over_plugin: false,
        make_plan: &|| args.plan(),
        check_plan: &|plan| {
            args.require_same(plan)?;
            incast.as_ref().map_or(Ok(()), |incast| incast.require_same(plan))
        },
        body: &|connected, plan| {
            // Of two ends on one machine, the one that the user started has the busy threads.
            let busy = if args.ends.is_started_end() { 0 } else { plan.busy };
            let _other_work = BusyThreads::start(busy)?;
            match &incast {
                Some(incast) => measure_one_of_several(connected, plan, output, incast),
                None if plan.is_all_to_all => measure_with_all(args, connected, plan, output),
                None => measure_alone(connected, plan, output),
            }
        },
        several: incast.as_ref().map(|incast| SeveralClients {
            clients,
            abort: Box::new(|| incast.barrier.abort()),
            join: &incast::join,
        }),
    };
    program.run(print)
}

fn measure_alone(
    connected: &mut ConnectedEnd<'_>,
    plan: &Plan,
    output: &Output,
) -> Result<Report, Failure> {
    let progress = match plan.duration_ms {
        None => Progress::bar(u64::from(plan.iterations) * plan.sizes.len() as u64),
        Some(_) => Progress::none(),
    };
    let take_row =
        |_: &mut ConnectedEnd<'_>, report: &Report, case: &mut CaseFigures, progress: &Progress| {
            output.row(report, case, report.cases().is_empty(), progress)
        };
    let others = Others { gate: Gate::Open, take_row: &take_row };
    measure(connected, plan, output, &others, &progress)
}

/// Measures with one of a server's clients.
fn measure_one_of_several(
    connected: &mut ConnectedEnd<'_>,
    plan: &Plan,
    output: &Output,
    incast: &Incast,
) -> Result<Report, Failure> {
    let introduce = |connected| incast.introductions.introduce(connected, &incast.barrier);
    let later = plan.is_all_to_all.then(|| introduce(&mut *connected)).transpose()?;
    let take_row = |connected: &mut ConnectedEnd<'_>,
                    report: &Report,
                    case: &mut CaseFigures,
                    progress: &Progress| {
        if let Some(later) = later {
            let pairs = Introductions::pairs_of(connected, later, case.iterations)?;
            case.later_pairs = Some(pairs);
        }
        incast.row(output, report, case, progress)
    };
    let others = Others { gate: Gate::Server(&incast.barrier), take_row: &take_row };
    measure(connected, plan, output, &others, &Progress::none())
}

/// Measures, at a client of all to all, with the server and beside it with the other clients.
fn measure_with_all(
    args: &PerfArgs,
    connected: &mut ConnectedEnd<'_>,
    plan: &Plan,
    output: &Output,
) -> Result<Report, Failure> {
    let budget = connected.link.budget();
    let port = ServerPort::for_other_ends(&args.ends, connected.link.local_ip())?;
    let roster = all_to_all::ask_for_others(connected, port.number()?)?;
    let (before, after) = roster.around();
    let group = Group::new(after);
    let nowhere = Output::nowhere(output.unit);
    let pairs = Program {
        command: "perf",
        ends: &args.ends,
        is_over_plugin: false,
        make_plan: &|| Ok(all_to_all::plan_of_pairs(plan, before.len())),
        check_plan: &|theirs| all_to_all::require_same(plan, theirs),
        body: &|connected, plan| {
            let follow =
                |connected: &mut ConnectedEnd<'_>,
                 report: &Report,
                 case: &mut CaseFigures,
                 _: &Progress| { group.add(connected, report.cases().len(), case) };
            let others = match connected.role {
                Role::Server => Others { gate: Gate::Follower(&group.barrier), take_row: &follow },
                Role::Client => Others { gate: Gate::Open, take_row: &|_, _, _, _| Ok(()) },
            };
            measure(connected, plan, &nowhere, &others, &Progress::none())
        },
        several: None,
    };
    let speak = |connected: &mut ConnectedEnd<'_>,
                 report: &Report,
                 case: &mut CaseFigures,
                 progress: &Progress| {
        group.tell(connected, report.cases().len())?;
        output.row(report, case, report.cases().is_empty(), progress)
    };
    let speaker = Others { gate: Gate::Speaker(&group.barrier), take_row: &speak };
    let own = || measure(connected, plan, output, &speaker, &Progress::none());
    pairs.run_beside(&port, before, after, budget, &|| group.barrier.abort(), own)
}
