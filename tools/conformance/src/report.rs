//! Report of a run.
//!
//! § is a section of docs/plugin-contract.md.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::check::{Check, Group};
use crate::memory_kind::MemoryKind;
use crate::outcome::Outcome;

/// One check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// `group.rule`.
    pub name: String,
    /// Section of the plugin contract ([`CONTRACT`](crate::CONTRACT)), such as `§2.7`.
    pub section: String,
    /// Subject of the check.
    pub group: Group,
    /// The rule in one sentence.
    pub what: String,
    /// Outcome of the check.
    pub outcome: Outcome,
    /// Time of the check, in milliseconds.
    pub elapsed_ms: u64,
}

impl CheckReport {
    /// Returns the report of `check`, which took `elapsed`.
    #[must_use]
    pub fn new(check: &Check, outcome: Outcome, elapsed: Duration) -> Self {
        Self {
            name: check.name.to_owned(),
            section: check.section.to_owned(),
            group: check.group,
            what: check.what.to_owned(),
            outcome,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Counts of checks by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Rules kept.
    pub passed: usize,
    /// Rules broken.
    pub failed: usize,
    /// Allowed differences.
    pub differing: usize,
    /// Checks that did not apply.
    pub skipped: usize,
    /// Checks that apply and could not be run.
    pub not_run: usize,
}

/// All outcomes of one run, in the order of [`checks`](crate::checks).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// One report for each selected check.
    pub checks: Vec<CheckReport>,
    /// Kind of memory that the data checks registered.
    pub memory: MemoryKind,
}

impl Report {
    /// Returns whether the plugin broke any rule.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.checks.iter().any(|check| check.outcome.failed())
    }

    /// Returns whether no rule was broken, every check that applies was run, and at least one was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let totals = self.totals();
        totals.failed == 0 && totals.not_run == 0 && totals.passed + totals.differing > 0
    }

    /// Returns the outcome of the check of this name; `None` if it was not selected.
    #[must_use]
    pub fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.checks.iter().find(|check| check.name == name).map(|check| &check.outcome)
    }

    /// Returns the counts by outcome.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for check in &self.checks {
            match check.outcome {
                Outcome::Pass => totals.passed += 1,
                Outcome::Fail { .. } => totals.failed += 1,
                Outcome::Differs { .. } => totals.differing += 1,
                Outcome::Skip { .. } => totals.skipped += 1,
                Outcome::NotRun { .. } => totals.not_run += 1,
            }
        }
        totals
    }
}
