//! Runner of the selected checks, several at a time, with results in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::check::Check;
use crate::checks::checks;
use crate::harness::fixture::Fixture;
use crate::harness::plugin_under_test::{ORIGINAL_NAME, PluginUnderTest};
use crate::memory_kind::MemoryKind;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::{CheckReport, Report};

/// Shortest deadline in which a plugin can connect.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);

/// Reason of a check that the run's time did not reach.
const NO_TIME: &str = "the time of the run was over";

/// Error of a run that started no check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A selected name is neither a check nor a group.
    #[error("no check and no group is named `{name}`")]
    UnknownCheck {
        /// The name.
        name: String,
    },
    /// The deadline is too short for any check.
    #[error(
        "a deadline of {deadline:?} per check is too short; \
         it must be at least {SHORTEST_DEADLINE:?}"
    )]
    DeadlineTooShort {
        /// The deadline of the options.
        deadline: Duration,
    },
    /// The options name other memory for the hardware plugin, which registers and receives GPU
    /// memory alone.
    #[error(
        "this is the hardware plugin ({ORIGINAL_NAME}), which receives into GPU memory alone: \
         checks over {memory} memory would say nothing about it; check it over cuda memory"
    )]
    HardwareMemory {
        /// The kind of memory of the options.
        memory: MemoryKind,
    },
}

/// Runs the checks that `options` select, and calls `on_result` with each report, in order, as soon
/// as its check and those before it have ended.
///
/// No plugin is loaded into this process. A check takes at most its deadline and a few seconds, and
/// the run at most [`Options::time`].
///
/// # Errors
/// [`RunError`] when the options are invalid; errors of the plugin are in the report.
pub fn run(options: &Options, on_result: &mut dyn FnMut(&CheckReport)) -> Result<Report, RunError> {
    if options.deadline < SHORTEST_DEADLINE {
        return Err(RunError::DeadlineTooShort { deadline: options.deadline });
    }
    let known = |name: &String| {
        let alone = Options { only: vec![name.clone()], ..options.clone() };
        checks().iter().any(|check| alone.selects(check.name))
    };
    if let Some(name) = options.only.iter().find(|name| !known(name)) {
        return Err(RunError::UnknownCheck { name: name.clone() });
    }
    let end = options.time.map(|time| Instant::now() + time);
    let patience = end.map_or(options.deadline, |end| left(end).min(options.deadline));
    let plugin = PluginUnderTest::examine(options, Instant::now() + patience)
        .map_err(|memory| RunError::HardwareMemory { memory })?;
    let mut report = Report { memory: plugin.memory, ..Report::default() };
    let selected: Vec<&Check> =
        checks().iter().filter(|check| options.selects(check.name)).collect();
    in_order(
        plugin.jobs().get(),
        &selected,
        |check| run_one(&plugin, check, end),
        |result| {
            on_result(&result);
            report.checks.push(result);
        },
    );
    Ok(report)
}

/// Calls `work` with each of `items`, `jobs` at a time, and `take` with the results in the order of
/// the items. A working thread outlives its results, so an agent, which dies with the thread that
/// started it, does not die early.
fn in_order<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(R),
) {
    let next = AtomicUsize::new(0);
    let (to_taker, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            let to_taker = to_taker.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    if to_taker.send((at, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(to_taker);
        let mut ready = BTreeMap::new();
        let mut taken = 0;
        for (at, result) in results {
            ready.insert(at, result);
            while let Some(result) = ready.remove(&taken) {
                take(result);
                taken += 1;
            }
        }
    });
}

/// Returns the time until `end`.
fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// Runs one check by `end`, the deadline of the run.
fn run_one(plugin: &PluginUnderTest<'_>, check: &Check, end: Option<Instant>) -> CheckReport {
    if check.destructive && !plugin.options.destructive {
        let reason = "it crashes version 3.1.9; ask for destructive checks to run it".to_owned();
        return CheckReport::new(check, Outcome::Skip { reason }, Duration::ZERO);
    }
    let start = Instant::now();
    let no_time = || Outcome::NotRun { reason: NO_TIME.to_owned() };
    let left = end.map(left);
    if left.is_some_and(|left| left < SHORTEST_DEADLINE) {
        return CheckReport::new(check, no_time(), Duration::ZERO);
    }
    let fixture = Fixture::new(plugin, left);
    let outcome = match (check.body)(&fixture) {
        Ok(()) => Outcome::Pass,
        Err(halt) => match halt.into() {
            // With the whole of its own time it might have passed.
            Outcome::Fail { .. } if fixture.was_cut_short() => no_time(),
            outcome => outcome,
        },
    };
    CheckReport::new(check, outcome, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_stay_in_order_in_whatever_order_work_ends() {
        let items: Vec<usize> = (0..100).collect();
        for jobs in [1, 3, 200] {
            let mut taken = Vec::new();
            let work = |item: &usize| {
                (0..(item * 7919) % 50).for_each(|_| thread::yield_now());
                *item
            };
            in_order(jobs, &items, work, |item| taken.push(item));
            assert_eq!(taken, items, "{jobs} at a time");
        }
        in_order(2, &[(); 0], |()| (), |()| panic!("there is nothing to take"));
    }

    #[test]
    fn as_many_checks_run_at_once_as_jobs_say() {
        let all_there = Barrier::new(4);
        let mut led = 0;
        let work = |_: &usize| all_there.wait().is_leader();
        in_order(4, &[1, 2, 3, 4], work, |leads| led += usize::from(leads));
        assert_eq!(led, 1);
    }
}
