//! Runs the selected checks, several at a time, and tells of them in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::check::Check;
use crate::checks::checks;
use crate::harness::fixture::Fixture;
use crate::harness::subject::{ORIGINAL_NAME, Subject};
use crate::memory_kind::MemoryKind;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::{CheckReport, Report};

/// Shortest deadline that lets a plugin connect at all.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);

/// Why a check has no answer.
const NO_TIME: &str = "the time of the run was over";

/// Why no check was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A wanted name is neither a check nor a group.
    #[error("no check and no group is named `{name}`")]
    UnknownCheck {
        /// The name.
        name: String,
    },
    /// A check cannot do anything in this time.
    #[error(
        "a deadline of {deadline:?} per check is too short; \
         it must be at least {SHORTEST_DEADLINE:?}"
    )]
    DeadlineTooShort {
        /// What was asked for.
        deadline: Duration,
    },
    /// The hardware plugin registers and receives GPU memory. What it does with other memory says
    /// nothing about it.
    #[error(
        "this is the hardware plugin ({ORIGINAL_NAME}), which receives into GPU memory alone: \
         checks over {memory} memory would say nothing about it; check it over cuda memory"
    )]
    HardwareMemory {
        /// What was asked for.
        memory: MemoryKind,
    },
}

/// Runs the checks that `options` selects and tells `on_result` of each, in order, as soon as it
/// and those before it have ended.
///
/// No plugin is loaded into this process. A check takes at most its deadline and a few seconds, and
/// all of them no longer than [`Options::time`].
///
/// # Errors
/// [`RunError`] when the options make no sense; what the plugin does is in the report.
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
    let subject = Subject::of(options, Instant::now() + patience)
        .map_err(|memory| RunError::HardwareMemory { memory })?;
    let mut report = Report { memory: subject.memory, ..Report::default() };
    let selected: Vec<&Check> =
        checks().iter().filter(|check| options.selects(check.name)).collect();
    in_order(
        subject.jobs().get(),
        &selected,
        |check| run_one(&subject, check, end),
        |result| {
            on_result(&result);
            report.checks.push(result);
        },
    );
    Ok(report)
}

/// Gives each of `items` to `work`, `jobs` at a time, and the results to `take` in the order of the
/// items. The threads that work do not end before their results are there, so an agent, which dies
/// with the thread that started it, does not die early.
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

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// `end`: of the run.
fn run_one(subject: &Subject<'_>, check: &Check, end: Option<Instant>) -> CheckReport {
    if check.destructive && !subject.options.destructive {
        let reason = "it crashes version 3.1.9; ask for destructive checks to run it".to_owned();
        return CheckReport::new(check, Outcome::Skip { reason }, Duration::ZERO);
    }
    let start = Instant::now();
    let no_time = || Outcome::NotRun { reason: NO_TIME.to_owned() };
    let left = end.map(left);
    if left.is_some_and(|left| left < SHORTEST_DEADLINE) {
        return CheckReport::new(check, no_time(), Duration::ZERO);
    }
    let fixture = Fixture::new(subject, left);
    let outcome = match (check.body)(&fixture) {
        Ok(()) => Outcome::Pass,
        Err(halt) => match halt.into() {
            // In its own time it might have been in order.
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
    fn results_come_in_order_however_the_work_ends() {
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
    fn as_many_run_at_once_as_were_asked_for() {
        let all_there = Barrier::new(4);
        let mut led = 0;
        let work = |_: &usize| all_there.wait().is_leader();
        in_order(4, &[1, 2, 3, 4], work, |leads| led += usize::from(leads));
        assert_eq!(led, 1);
    }
}
