//! `tcpx conformance`: whether a plugin keeps the rules of the ncclNet v7 contract, each tried in
//! processes of its own. A check's section, such as §2.9, is one of docs/plugin-contract.md.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use tcpx_conformance::{
    CONTRACT, Check, CheckReport, MemoryKind, Options, Outcome, Report, Target, checks,
    run as run_checks,
};
use tcpx_core::PluginChoice;
use tcpx_sys::LoadError;

use crate::budget::Budget;
use crate::failure::Failure;
use crate::input::Seconds;
use crate::output::{Progress, print, print_json};
use crate::session::{Memory, Transport};

/// Width of the column of results.
const RESULT: usize = 8;
/// Width of the column of names.
const NAME: usize = 44;

/// Check a plugin against the rules that this library relies on, one by one.
///
/// The plugin is never loaded into this process: each check starts processes of its own, so a
/// plugin that exits, crashes or hangs becomes a result that names the call. Beside each check is
/// the section of docs/plugin-contract.md that has the rule. Results: pass; FAIL with what was
/// expected; differs, which is allowed but not what version 3.1.9 does; skip. Exit status: 0 when
/// nothing failed and not everything was skipped, 2 when flags are wrong, else 1.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ConformanceArgs {
    /// Plugin to check: auto, soft or the file of an ncclNet v7 plugin
    /// [env: TCPX_PLUGIN, UCCL_TCPX_PLUGIN_PATH] [default: auto]
    #[arg(long, value_name = "auto|soft|PATH")]
    pub(crate) plugin: Option<PluginChoice>,

    /// Memory that the data checks register
    #[arg(long, value_enum, default_value = "emulated", value_name = "KIND")]
    memory: Memory,

    /// CUDA ordinal of the GPU, with --memory cuda [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,

    /// Run this check or group only; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Also run the checks that crash version 3.1.9
    #[arg(long)]
    destructive: bool,

    /// Longest time for one check, at least 1
    #[arg(long, default_value = "30", value_name = "SECONDS")]
    deadline: Seconds,

    /// Longest time for the whole run. Checks that it leaves without an answer are skipped, and
    /// the run has failed then [default: as long as the checks take]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<Seconds>,

    /// List the checks with the rules that they try, and run none
    #[arg(long)]
    #[arg(conflicts_with_all = ["plugin", "memory", "gpu", "only", "destructive", "deadline", "timeout"])]
    list: bool,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs or lists the checks.
pub(crate) fn run(args: &ConformanceArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.json).map(|()| ExitCode::SUCCESS);
    }
    let budget = Budget::new(args.timeout.map(|timeout| timeout.0));
    let transport = Transport::of(args.plugin.as_ref())?;
    let options = options(args, &transport, budget)?;
    let report = if args.json { silently(&options)? } else { with_rows(&options, &transport)? };
    if args.json {
        print_json(&json!({
            "transport": transport,
            "memory": options.memory,
            "checks": report.checks,
            "totals": report.totals(),
            "failed": report.failed(),
            "unfinished": report.unfinished,
        }))?;
    }
    if let (Some(waited), 1..) = (budget.end(), report.unfinished) {
        let (unfinished, all) = (report.unfinished, report.checks.len());
        let doing = format!("running checks, {unfinished} of {all} without an answer");
        return Err(Failure::OutOfTime { doing, waited });
    }
    Ok(if is_good(&report) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A run that could try nothing says nothing in the plugin's favour.
fn is_good(report: &Report) -> bool {
    let totals = report.totals();
    totals.failed == 0 && totals.passed + totals.differing > 0
}

fn options(
    args: &ConformanceArgs,
    transport: &Transport,
    budget: Budget,
) -> Result<Options, Failure> {
    if let (Some(gpu), true) = (args.gpu, args.memory != Memory::Cuda) {
        let text = format!("--gpu {gpu} goes with --memory cuda only");
        return Err(Failure::Usage(text));
    }
    let target = match transport.path() {
        None => Target::Table,
        // Each of the checks would say so.
        Some(path) if !path.is_file() => {
            let missing = LoadError::Missing { path: path.to_owned() };
            return Err(tcpx_core::Error::Load(Arc::new(missing)).into());
        }
        Some(path) => Target::Path(path.to_owned()),
    };
    let mut options = Options::new(target);
    options.memory = match args.memory {
        Memory::Emulated => MemoryKind::Emulated,
        Memory::Host => MemoryKind::Host,
        Memory::Cuda => MemoryKind::Cuda,
    };
    options.gpu = args.gpu;
    options.only = args.only.clone();
    options.destructive = args.destructive;
    options.deadline = args.deadline.0;
    options.time = budget.left();
    Ok(options)
}

fn silently(options: &Options) -> Result<Report, Failure> {
    run_checks(options, &mut |_| ()).map_err(|error| Failure::Usage(error.to_string()))
}

/// Prints each result as it comes, below the name of its group.
fn with_rows(options: &Options, transport: &Transport) -> Result<Report, Failure> {
    let progress = Progress::count();
    // Printed with the first result: options that make no sense have none.
    let mut title = Some(format!("plugin {} ({})\n", transport.plugin, transport.why));
    let mut group = None;
    let mut printed = Ok(());
    let report = run_checks(options, &mut |check| {
        let heading = (group != Some(check.group)).then(|| format!("\n{}\n", check.group));
        group = Some(check.group);
        let text = title.take().unwrap_or_default() + &heading.unwrap_or_default() + &row(check);
        // The checks go on without a reader: their processes have to be ended properly.
        if printed.is_ok() {
            printed = progress.above(|| print(&text));
        }
        progress.step(&check.name);
    })
    .map_err(|error| Failure::Usage(error.to_string()))?;
    drop(progress);
    printed?;
    print(&format!("\n{}\n{}", legend(), summary(&report)))?;
    Ok(report)
}

/// One check for people: result, name and section; what there is to say about it below.
fn row(check: &CheckReport) -> String {
    let (result, details) = match &check.outcome {
        Outcome::Pass => ("pass", Vec::new()),
        Outcome::Fail { expected, got } => (
            "FAIL",
            vec![
                format!("rule:     {}", check.what),
                format!("expected: {expected}"),
                format!("got:      {got}"),
            ],
        ),
        Outcome::Differs { text } => ("differs", vec![text.clone()]),
        Outcome::Skip { reason } => ("skip", vec![reason.clone()]),
    };
    let mut text = format!("  {result:<RESULT$} {:<NAME$} {}", check.name, check.section);
    for detail in details {
        text.push_str(&format!("\n  {:<RESULT$} {detail}", ""));
    }
    text
}

/// What the sections are sections of.
fn legend() -> String {
    format!("§ = {CONTRACT}")
}

fn summary(report: &Report) -> String {
    let totals = report.totals();
    format!(
        "{} checks: {} passed, {} failed, {} differing, {} skipped",
        report.checks.len(),
        totals.passed,
        totals.failed,
        totals.differing,
        totals.skipped
    )
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        let rows = checks().iter().map(|check| {
            json!({
                "name": check.name,
                "group": check.group,
                "section": check.section,
                "what": check.what,
                "destructive": check.destructive,
            })
        });
        let rows: Vec<_> = rows.collect();
        return print_json(&json!({ "contract": CONTRACT, "checks": rows }));
    }
    let rows = checks().iter().map(listed).chain([legend()]);
    print(&rows.collect::<Vec<String>>().join("\n"))
}

fn listed(check: &Check) -> String {
    let mark = if check.destructive { " [destructive]" } else { "" };
    format!("{:<NAME$} {:<6} {}{mark}", check.name, check.section, check.what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn report(outcome: Outcome) -> CheckReport {
        let check = checks().iter().find(|check| check.name == "fifo.receive_done_once");
        CheckReport::new(check.expect("a check"), outcome, Duration::from_millis(3))
    }

    fn of(checks: Vec<CheckReport>) -> Report {
        let mut report = Report::default();
        report.checks = checks;
        report
    }

    #[test]
    fn a_row_says_all_there_is_to_say() {
        let text = row(&report(Outcome::Pass));
        assert!(
            text.starts_with("  pass     fifo.receive_done_once ") && text.ends_with("§2.9"),
            "{text}"
        );
        let failed = Outcome::Fail { expected: "rc 3".into(), got: "rc 0".into() };
        let text = row(&report(failed));
        assert!(text.starts_with("  FAIL     fifo.receive_done_once "), "{text}");
        for words in ["a receive is reported done once", "expected: rc 3", "got:      rc 0"] {
            assert!(text.contains(words), "{text}");
        }
        let text = row(&report(Outcome::Skip { reason: "no GPU".into() }));
        assert!(text.ends_with("\n           no GPU"), "{text}");
    }

    #[test]
    fn every_name_fits_its_column() {
        for check in checks() {
            assert!(check.name.len() <= NAME, "{}", check.name);
        }
    }

    #[test]
    fn only_checks_that_were_tried_make_a_good_run() {
        let skip = || report(Outcome::Skip { reason: "no GPU".into() });
        let fail = report(Outcome::Fail { expected: "3".into(), got: "0".into() });
        let run = |checks: Vec<CheckReport>| is_good(&of(checks));
        assert!(run(vec![skip(), report(Outcome::Pass)]));
        assert!(!run(vec![skip(), skip()]));
        assert!(!run(vec![report(Outcome::Pass), fail]));
    }

    #[test]
    fn the_summary_counts_by_outcome() {
        let differs = Outcome::Differs { text: "stricter".into() };
        let report = of(vec![report(Outcome::Pass), report(differs)]);
        assert_eq!(summary(&report), "2 checks: 1 passed, 0 failed, 1 differing, 0 skipped");
    }
}
