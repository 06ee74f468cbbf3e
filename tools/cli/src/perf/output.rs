//! Output of the report while it grows: a row is shown as soon as its size is measured.

use std::path::PathBuf;

use super::figures::CaseFigures;
use super::intervals::Interval;
use super::kv::KvRequest;
use super::rate_unit::RateUnit;
use super::report::Report;
use super::{csv, html, table};
use crate::failure::Failure;
use crate::output::{Progress, json, print};

/// Format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    /// A line for each size.
    Csv,
    /// One object at the end.
    Json,
    /// Another end shows it.
    Nothing,
}

/// Destination of the report.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) format: Format,
    /// Page that the report is written to as well.
    pub(super) page: Option<PathBuf>,
    /// Unit of the rates in the table and the page.
    pub(super) unit: RateUnit,
    /// KV cache that is moved, if it is one.
    pub(super) kv: Option<KvRequest>,
}

impl Output {
    /// Returns an output that shows nothing; its reports have rates in `unit`.
    pub(super) fn nowhere(unit: RateUnit) -> Self {
        Self { format: Format::Nothing, page: None, unit, kv: None }
    }

    /// Prints the row of one size above the progress.
    pub(super) fn row(
        &self,
        report: &Report,
        case: &CaseFigures,
        is_first: bool,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let (heading, row) = match self.format {
            // The facts stand above the intervals.
            Format::Table if report.has_intervals => {
                (format!("\n{}", table::names(report)), table::row(report, case))
            }
            Format::Table => (table::heading(report), table::row(report, case)),
            Format::Csv => (csv::heading(), csv::row(report, case)),
            Format::Json | Format::Nothing => return Ok(()),
        };
        progress.above(|| {
            if is_first {
                print(&heading)?;
            }
            print(&row)
        })
    }

    /// Prints the line of an interval above the progress, unless those of several ends would be
    /// mixed.
    pub(super) fn interval(
        &self,
        report: &Report,
        interval: &Interval,
        progress: &Progress,
    ) -> Result<(), Failure> {
        if self.format != Format::Table || !report.has_intervals {
            return Ok(());
        }
        progress.above(|| {
            if report.cases().is_empty() && interval.begin.is_zero() {
                print(&format!("{}\n", table::facts(report)))?;
            }
            print(&table::interval(interval, self.unit))
        })
    }

    /// Checks, before anything is measured, that the page can be written.
    pub(super) fn check_page(&self) -> Result<(), Failure> {
        let Some(path) = &self.page else { return Ok(()) };
        let is_new = !path.exists();
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let removed = opened.and_then(|_| match is_new {
            true => std::fs::remove_file(path),
            false => Ok(()),
        });
        removed.map_err(|error| {
            let shown = path.display();
            Failure::Usage(format!("--html {shown}: {error}; name a file that this user may write"))
        })
    }

    /// Writes the page of these measurements, each with what tells it from the others.
    pub(super) fn write_page(&self, measurements: &[(String, &Report)]) -> Result<(), Failure> {
        let Some(path) = &self.page else { return Ok(()) };
        let what = format!("writing {}", path.display());
        std::fs::write(path, html::render(measurements)).map_err(Failure::io(what))
    }

    /// Prints the end of the report, and writes the page.
    pub(super) fn end(&self, report: &Report) -> Result<(), Failure> {
        self.write_page(&[(String::new(), report)])?;
        match self.format {
            Format::Table => print(&format!("\n{}", table::closing(report))),
            Format::Json => print(&json(report)?),
            Format::Csv | Format::Nothing => Ok(()),
        }
    }
}
