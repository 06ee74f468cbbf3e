//! Measurement with two ends, from the rendezvous to the goodbye.

use super::args::PerfArgs;
use super::busy::BusyThreads;
use super::incast::{self, Incast};
use super::measurement::measure;
use super::output::Output;
use super::report::Report;
use crate::failure::Failure;
use crate::rendezvous::{Program, SeveralClients};

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
            measure(connected, plan, output, incast.as_ref())
        },
        several: incast.as_ref().map(|incast| SeveralClients {
            clients,
            abort: Box::new(|| incast.barrier.abort()),
            join: &incast::join,
        }),
    };
    program.run(print)
}
