//! Measurement of every GPU with every NIC, one pair after the other, each with sessions of its
//! own.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use tcpx_core::Session;

use super::args::PerfArgs;
use super::both_ends::{measure_ends, outcome};
use super::csv;
use super::figures::CaseFigures;
use super::output::{Format, Output};
use super::report::Report;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::input::ByteSize;
use crate::output::{print, print_json};
use crate::session::{GpuNicPair, SessionSetup};

/// Interval at which a busy server is tried again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Report of a pair.
#[derive(Debug, Serialize)]
struct PairReport {
    #[serde(flatten)]
    pair: GpuNicPair,
    #[serde(flatten)]
    report: Report,
}

#[derive(Debug, Serialize)]
struct PairReports<'a> {
    pairs: &'a [PairReport],
}

/// Measures all pairs, and prints each as it is measured. After wrong bytes the measurement goes
/// on, and returns the first failure at the end.
pub(super) fn measure(args: &PerfArgs, format: Format) -> Result<(), Failure> {
    let mut reports: Vec<PairReport> = Vec::new();
    for pair in pairs(args)? {
        let mut args = args.clone();
        args.ends.session.use_pair(pair.clone());
        let measured = RefCell::new(None);
        retry_while_busy(&args, || {
            measure_ends(&args, &Output::nowhere(), |report| {
                measured.replace(Some(report));
                Ok(())
            })
        })?;
        let Some(report) = measured.into_inner() else { continue };
        let is_last = report.interrupted;
        show(&pair, &report, format, reports.is_empty())?;
        reports.push(PairReport { pair, report });
        if is_last {
            break;
        }
    }
    if format == Format::Json {
        print_json(&PairReports { pairs: &reports })?;
    }
    reports.iter().try_for_each(|it| outcome(&it.report))
}

/// Measures again while the server is busy. A server is free again soon after the last pair, which
/// no event reports.
fn retry_while_busy(
    args: &PerfArgs,
    mut measure: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let waited = args.ends.budget().step();
    loop {
        match measure() {
            Err(Failure::Busy(_)) if !waited.left().is_zero() => sleep(ASK_AGAIN),
            outcome => return outcome,
        }
    }
}

/// Returns the GPUs and NICs that were named, or all there are.
fn pairs(args: &PerfArgs) -> Result<Vec<GpuNicPair>, Failure> {
    let session = &args.ends.session;
    let SessionSetup { options, memory } = session.setup(Budget::new(None))?;
    let gpus = match (session.gpu, memory.has_gpu()) {
        (Some(gpu), _) => vec![Some(gpu)],
        (None, true) => (0..tcpx_core::gpu_count()).map(Some).collect(),
        (None, false) => vec![None],
    };
    let nics = match options.nics.is_empty() {
        false => options.nics,
        true => {
            let all = Session::new(options)?;
            all.nics().iter().map(|nic| nic.name.clone()).collect()
        }
    };
    let pair = |gpu| nics.iter().map(move |nic| GpuNicPair { gpu, nic: nic.clone() });
    Ok(gpus.into_iter().flat_map(pair).collect())
}

fn show(pair: &GpuNicPair, report: &Report, format: Format, is_first: bool) -> Result<(), Failure> {
    let gpu = pair.gpu.map_or_else(|| "-".to_owned(), |gpu| gpu.to_string());
    let nic = &pair.nic;
    for (index, case) in report.cases().iter().enumerate() {
        let (heading, row) = match format {
            Format::Table => (table_heading(), format!("{gpu:>4}  {nic:>12}  {}", row(case))),
            Format::Csv => (
                format!("gpu,nic,{}", csv::heading()),
                format!("{gpu},{nic},{}", csv::row(report, case)),
            ),
            Format::Json | Format::Nothing => return Ok(()),
        };
        if is_first && index == 0 {
            print(&heading)?;
        }
        print(&row)?;
    }
    Ok(())
}

fn table_heading() -> String {
    format!(
        "{:>4}  {:>12}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}",
        "gpu", "nic", "size", "GB/s", "p99", "p50 us", "p99 us", "verified"
    )
}

fn row(case: &CaseFigures) -> String {
    let (rate, latency) = (case.rate(), case.latency());
    let number = |figure: Option<f64>, decimals: usize| {
        figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
    };
    format!(
        "{:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}",
        ByteSize(case.size_bytes),
        number(rate.map(|rate| rate.gb_per_s_median), 3),
        number(rate.and_then(|rate| rate.gb_per_s_p99), 3),
        number(latency.map(|times| times.p50), 1),
        number(latency.and_then(|times| times.p99), 1),
        if case.verified { "yes" } else { "NO" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::wrapping::COLUMNS;

    #[test]
    fn rows_stand_below_their_heading() {
        let row = row(&CaseFigures { size_bytes: 4096, ..CaseFigures::default() });
        let line = format!("{:>4}  {:>12}  {row}", "0", "eth1");
        assert_eq!(line.len(), table_heading().len(), "{line}");
        assert!(line.len() <= COLUMNS && line.ends_with("NO"));
    }
}
