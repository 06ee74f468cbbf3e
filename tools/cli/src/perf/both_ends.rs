//! Measurement with two ends, from their meeting to their goodbye.

use super::args::PerfArgs;
use super::busy::OtherWork;
use super::incast::{self, Incast};
use super::measurement::measure;
use super::output::Output;
use super::report::Report;
use crate::failure::Failure;
use crate::rendezvous::{Program, Several};

/// Returns the outcome of a command that has shown this report.
pub(super) fn verdict(report: &Report) -> Result<(), Failure> {
    match report.mismatch() {
        Some(mismatch) => Err(Failure::NotVerified(mismatch.to_owned())),
        None if report.was_interrupted_here => Err(Failure::Interrupted),
        None => Ok(()),
    }
}

/// Runs a measurement. Rows go to `output` as they come; `tell` has the whole.
pub(super) fn measure_ends(
    args: &PerfArgs,
    output: &Output,
    tell: impl Fn(Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let clients = args.clients()?;
    let incast = (clients > 1).then(|| Incast::new(clients));
    let program = Program {
        command: "perf",
        ends: &args.ends,
        is_over_plugin: false,
        make_plan: &|| args.plan(),
        check_plan: &|plan| {
            args.insist(plan)?;
            incast.as_ref().map_or(Ok(()), |incast| incast.insist(plan))
        },
        body: &|agreed, plan| {
            // Two ends on one machine have their other work from the end that was started first.
            let busy = if args.ends.is_started_end() { 0 } else { plan.busy };
            let _other_work = OtherWork::start(busy)?;
            measure(agreed, plan, output, incast.as_ref())
        },
        several: incast.as_ref().map(|incast| Several {
            clients,
            give_up: Box::new(|| incast.together.leave()),
            join: &incast::join,
        }),
    };
    program.run(tell)
}
