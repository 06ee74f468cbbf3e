//! Runs the selected checks one after the other.

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

/// Runs the checks that `options` selects and tells `on_result` of each as it ends.
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
    for check in checks().iter().filter(|check| options.selects(check.name)) {
        let result = run_one(&subject, check, end);
        on_result(&result);
        report.checks.push(result);
    }
    Ok(report)
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
