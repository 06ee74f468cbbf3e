//! Runs the selected checks one after the other.

use std::time::{Duration, Instant};

use crate::check::Check;
use crate::checks::checks;
use crate::harness::fixture::Fixture;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::{CheckReport, Report};

/// Shortest deadline that lets a plugin connect at all.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);

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
}

/// Runs the checks that `options` selects and tells `on_result` of each as it ends.
///
/// No plugin is loaded into this process. A check takes at most its deadline and a few seconds.
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
    let mut report = Report::default();
    for check in checks().iter().filter(|check| options.selects(check.name)) {
        let result = run_one(options, check);
        on_result(&result);
        report.checks.push(result);
    }
    Ok(report)
}

fn run_one(options: &Options, check: &Check) -> CheckReport {
    if check.destructive && !options.destructive {
        let reason = "it crashes version 3.1.9; ask for destructive checks to run it".to_owned();
        return CheckReport::new(check, Outcome::Skip { reason }, Duration::ZERO);
    }
    let start = Instant::now();
    let outcome = match (check.body)(&Fixture::new(options)) {
        Ok(()) => Outcome::Pass,
        Err(halt) => halt.into(),
    };
    CheckReport::new(check, outcome, start.elapsed())
}
