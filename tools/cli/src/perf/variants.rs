//! Measurements of several variants, one after the other, each with sessions of its own: every GPU
//! with every NIC, or in clear and encrypted.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use tcpx_core::{Encryption, Session};

use super::args::PerfArgs;
use super::both_ends::{measure_ends, outcome};
use super::csv;
use super::figures::CaseFigures;
use super::output::{Format, Output};
use super::rate_unit::RateUnit;
use super::report::Report;
use super::table;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::input::ByteSize;
use crate::output::{print, print_json};
use crate::session::{GpuNicPair, SessionSetup};

/// Settings that `--encrypt` measures.
const OFF: &str = "off";
const REQUIRE: &str = "require";
/// Interval at which a busy server is tried again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What one measurement has, and the next has not.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Variant {
    Pair(GpuNicPair),
    Encryption { encryption: &'static str },
}

impl Variant {
    /// Returns what tells it from the others, in words.
    fn name(&self) -> String {
        match self {
            Self::Pair(pair) => format!("GPU {}, NIC {}", gpu(pair), pair.nic),
            Self::Encryption { encryption } => format!("encryption {encryption}"),
        }
    }
}

/// Report of a variant.
#[derive(Debug, Serialize)]
struct VariantReport {
    #[serde(flatten)]
    variant: Variant,
    #[serde(flatten)]
    report: Report,
}

/// The reports, by what varies.
#[derive(Debug, Serialize)]
struct VariantReports<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<&'a [VariantReport]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryptions: Option<&'a [VariantReport]>,
}

/// Measures all variants, and prints each as it is measured. After wrong bytes the measurement goes
/// on, and returns the first failure at the end.
pub(super) fn measure(args: &PerfArgs, output: &Output) -> Result<(), Failure> {
    let variants = match args.encrypt {
        true => [OFF, REQUIRE].map(|encryption| Variant::Encryption { encryption }).to_vec(),
        false => pairs(args)?.into_iter().map(Variant::Pair).collect(),
    };
    let mut reports: Vec<VariantReport> = Vec::new();
    for variant in variants {
        let mut args = args.clone();
        match &variant {
            Variant::Pair(pair) => args.ends.session.use_pair(pair.clone()),
            Variant::Encryption { encryption: OFF } => {
                args.ends.session.use_encryption(Encryption::Off);
            }
            Variant::Encryption { .. } => args.ends.session.use_encryption(Encryption::Require),
        }
        let measured = RefCell::new(None);
        retry_while_busy(&args, || {
            measure_ends(&args, &Output::nowhere(output.unit), |report| {
                measured.replace(Some(report));
                Ok(())
            })
        })?;
        let Some(report) = measured.into_inner() else { continue };
        let is_last = report.interrupted;
        show(&variant, &report, output, reports.first().map(|first| &first.report))?;
        reports.push(VariantReport { variant, report });
        if is_last {
            break;
        }
    }
    let named = reports.iter().map(|it| (it.variant.name(), &it.report));
    output.write_page(&named.collect::<Vec<_>>())?;
    if output.format == Format::Json {
        let [pairs, encryptions] = [!args.encrypt, args.encrypt].map(|it| it.then_some(&*reports));
        print_json(&VariantReports { pairs, encryptions })?;
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

/// Prints the rows of a variant. `first`: the report of the first variant, unless this is it.
fn show(
    variant: &Variant,
    report: &Report,
    output: &Output,
    first: Option<&Report>,
) -> Result<(), Failure> {
    for (index, case) in report.cases().iter().enumerate() {
        let before = first.and_then(|first| first.cases().get(index));
        let (heading, row) = match output.format {
            Format::Table => {
                (table_heading(variant, output.unit), table_row(variant, case, before, output.unit))
            }
            Format::Csv => (
                format!("{},{}", csv_names(variant), csv::heading()),
                format!("{},{}", csv_values(variant), csv::row(report, case)),
            ),
            Format::Json | Format::Nothing => return Ok(()),
        };
        if first.is_none() && index == 0 {
            print(&heading)?;
        }
        print(&row)?;
        let is_encryption = matches!(variant, Variant::Encryption { .. });
        if output.format == Format::Table
            && is_encryption
            && let Some(costs) = table::processor(case)
        {
            print(&format!("{:12}{costs}", ""))?;
        }
    }
    Ok(())
}

fn csv_names(variant: &Variant) -> &'static str {
    match variant {
        Variant::Pair(_) => "gpu,nic",
        Variant::Encryption { .. } => "encryption",
    }
}

fn csv_values(variant: &Variant) -> String {
    match variant {
        Variant::Pair(pair) => format!("{},{}", gpu(pair), pair.nic),
        Variant::Encryption { encryption } => (*encryption).to_owned(),
    }
}

fn gpu(pair: &GpuNicPair) -> String {
    pair.gpu.map_or_else(|| "-".to_owned(), |gpu| gpu.to_string())
}

fn table_heading(variant: &Variant, unit: RateUnit) -> String {
    let figures = format!(
        "{:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}",
        "size",
        unit.name(),
        "p99",
        "p50 us",
        "p99 us",
        "verified"
    );
    match variant {
        Variant::Pair(_) => format!("{:>4}  {:>12}  {figures}", "gpu", "nic"),
        Variant::Encryption { .. } => format!("{:>10}  {figures}  {:>5}", "encryption", "ratio"),
    }
}

/// Returns the row of a size. `before`: the figures of the same size in the first variant.
fn table_row(
    variant: &Variant,
    case: &CaseFigures,
    before: Option<&CaseFigures>,
    unit: RateUnit,
) -> String {
    match variant {
        Variant::Pair(pair) => format!("{:>4}  {:>12}  {}", gpu(pair), pair.nic, row(case, unit)),
        Variant::Encryption { encryption } => {
            let ratio = before.and_then(|before| ratio(case, before));
            format!("{encryption:>10}  {}  {:>5}", row(case, unit), number(ratio, 2))
        }
    }
}

/// Returns how many times as fast a size is as in the first variant; of round trips, how many times
/// as long they take.
fn ratio(case: &CaseFigures, first: &CaseFigures) -> Option<f64> {
    let rate = |case: &CaseFigures| case.rate().map(|rate| rate.gb_per_s_median);
    let time = |case: &CaseFigures| case.latency().map(|times| times.p50);
    match (rate(case), rate(first)) {
        (Some(own), Some(first)) => Some(own / first),
        _ => Some(time(case)? / time(first)?),
    }
}

fn number(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
}

fn row(case: &CaseFigures, unit: RateUnit) -> String {
    let (rate, latency) = (case.rate(), case.latency());
    format!(
        "{:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}",
        ByteSize(case.size_bytes),
        number(rate.map(|rate| unit.of(rate.gb_per_s_median)), 3),
        number(rate.and_then(|rate| rate.gb_per_s_p99).map(|rate| unit.of(rate)), 3),
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
        let case = CaseFigures { size_bytes: 4096, ..CaseFigures::default() };
        let pair = Variant::Pair(GpuNicPair { gpu: Some(0), nic: "eth1".to_owned() });
        for variant in [pair, Variant::Encryption { encryption: REQUIRE }] {
            for unit in [RateUnit::Gigabytes, RateUnit::Gigabits] {
                let line = table_row(&variant, &case, Some(&case), unit);
                assert_eq!(line.len(), table_heading(&variant, unit).len(), "{line}");
                assert!(line.len() <= COLUMNS && line.contains("NO"));
            }
        }
    }
}
