//! `tcpx conformance`: checks whether a plugin keeps the rules of the ncclNet v7 contract.
//!
//! Each rule is tried in processes of its own. A check's section, such as §2.9, is one of
//! docs/plugin-contract.md.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use serde_json::json;
use tcpx_conformance::{
    CONTRACT, Check, CheckReport, MemoryKind, Options, Outcome, PluginSource, Report, checks,
    run as run_checks,
};
use tcpx_core::PluginChoice;
use tcpx_sys::LoadError;

use crate::backstop::Backstop;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::input::{Seconds, plugin_name};
use crate::output::{Progress, print, print_json};
use crate::session::Transport;

/// Width of the column of results.
const RESULT: usize = 8;
/// Width of the column of names.
const NAME: usize = 44;
/// Exit status when a rule was broken.
const BROKEN: u8 = 1;
/// Exit status when no rule was broken, and not all applicable checks could run.
const INCOMPLETE: u8 = 3;

/// Check a plugin against the rules that this library relies on, one by one.
///
/// The plugin is never loaded into this process: each check starts processes of its own, so a
/// plugin that exits, crashes or hangs becomes a result that names the call. Beside each check is
/// the section of docs/plugin-contract.md that has the rule. Results: pass; FAIL with what was
/// expected; differs, which is allowed but not what version 3.1.9 does; skip, which means that the
/// check does not apply. Checks that apply and could not be run are counted, with one line that
/// says why. The hardware plugin sleeps 5 s in each accept, so a whole run over it takes about a
/// quarter of an hour: --timeout 1800. Exit status: 0 when nothing failed and all was tried, 1 when
/// a rule was broken, 2 when flags are wrong, 3 when none was broken and not all could be tried.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ConformanceArgs {
    /// Plugin to check: auto, soft, devmem or the file of an ncclNet v7 plugin
    /// [env: TCPX_PLUGIN, UCCL_TCPX_PLUGIN_PATH] [default: auto]
    #[arg(long, value_parser = plugin_name, value_name = "auto|soft|devmem|PATH")]
    pub(crate) plugin: Option<PluginChoice>,

    /// Memory that the data checks register. The hardware plugin takes GPU memory alone
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    memory: MemoryArg,

    /// CUDA ordinal of the GPU, with --memory cuda or auto [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,

    /// Run this check or group only; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Run the processes of each check in these network namespaces by turns, given as files such as
    /// /run/netns/NAME: both ends are on this host then, and yet use NICs
    #[arg(long, value_name = "FILE,FILE", value_delimiter = ',')]
    namespaces: Vec<PathBuf>,

    /// Also run the checks that crash version 3.1.9
    #[arg(long)]
    destructive: bool,

    /// Checks that run at the same time [default: as many as there are processors, at most 8; 1 for
    /// the hardware plugin, devmem, and in namespaces: there they would share what a NIC has little
    /// of]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Longest time for one check, at least 1
    #[arg(long, default_value = "30", value_name = "SECONDS")]
    deadline: Seconds,

    /// Longest time for the whole run, whatever the plugin does. Checks that do not end in time
    /// count as not run [default: 180; 360 where two or three checks run at a time, 720 where they
    /// run one by one]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<Seconds>,

    /// List the checks with the rules that they try, and run none
    #[arg(long)]
    #[arg(conflicts_with_all = ["plugin", "memory", "gpu", "only", "namespaces", "destructive", "jobs", "deadline", "timeout"])]
    list: bool,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Values of `--memory` here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum MemoryArg {
    /// GPU memory for the hardware plugin and where --gpu names one, else emulated
    #[default]
    Auto,
    /// Ordinary memory that stands in for GPU memory
    Emulated,
    /// Ordinary memory, registered as such
    Host,
    /// GPU memory
    Cuda,
}

impl MemoryArg {
    fn kind(self) -> Option<MemoryKind> {
        match self {
            Self::Auto => None,
            Self::Emulated => Some(MemoryKind::Emulated),
            Self::Host => Some(MemoryKind::Host),
            Self::Cuda => Some(MemoryKind::Cuda),
        }
    }
}

/// Seconds of a run with `ENOUGH_JOBS` checks at a time; more at a time save nothing.
const RUN_SECONDS: u64 = 180;
const ENOUGH_JOBS: usize = 4;

impl ConformanceArgs {
    /// Returns the time for the whole run.
    fn time(&self) -> Duration {
        let is_shared = !self.namespaces.is_empty() || self.plugin == Some(PluginChoice::Devmem);
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        let jobs = self.jobs.map_or(if is_shared { 1 } else { processors }, NonZeroUsize::get);
        self.timeout.as_ref().map_or_else(|| usual_time(jobs), |timeout| timeout.0)
    }
}

/// Returns the longest time of a run on a slow machine, with `jobs` checks at a time.
fn usual_time(jobs: usize) -> Duration {
    Duration::from_secs(RUN_SECONDS * ENOUGH_JOBS.div_ceil(jobs) as u64)
}

/// Runs or lists the checks.
pub(crate) fn run(args: &ConformanceArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.json).map(|()| ExitCode::SUCCESS);
    }
    let budget = Budget::new(Some(args.time()));
    // A process that the system cannot end, or a driver that does not answer, may block this one.
    let backstop = Backstop::start(budget)?;
    backstop.set_step("running checks");
    let transport = Transport::of(args.plugin.as_ref())?;
    let options = options(args, &transport, budget)?;
    let report = if args.json { silently(&options)? } else { with_rows(&options, &transport)? };
    if args.json {
        print_json(&json!({
            "transport": transport,
            "memory": report.memory,
            "checks": report.checks,
            "totals": report.totals(),
            "failed": report.failed(),
            "complete": report.is_complete(),
        }))?;
    }
    Ok(ExitCode::from(status(&report)))
}

/// Returns the exit status of a complete run.
fn status(report: &Report) -> u8 {
    match (report.failed(), report.is_complete()) {
        (true, _) => BROKEN,
        (false, true) => 0,
        (false, false) => INCOMPLETE,
    }
}

fn options(
    args: &ConformanceArgs,
    transport: &Transport,
    budget: Budget,
) -> Result<Options, Failure> {
    if let (Some(gpu), MemoryArg::Emulated | MemoryArg::Host) = (args.gpu, args.memory) {
        let text = format!("--gpu {gpu} goes with --memory cuda or auto only");
        return Err(Failure::Usage(text));
    }
    let target = match transport.path() {
        None => PluginSource::Table,
        // Each of the checks would report this.
        Some(path) if !path.is_file() => {
            let missing = LoadError::Missing { path: path.to_owned() };
            return Err(tcpx_core::Error::Load(Arc::new(missing)).into());
        }
        Some(path) => PluginSource::Path(path.to_owned()),
    };
    let mut options = Options::new(target);
    if transport.plugin == PluginChoice::Devmem {
        options.environment.push(("TCPX_SOFT_TRANSPORT".into(), "devmem".into()));
    }
    // Device memory is bound to queues of a NIC, which has few.
    let devmem = transport.plugin == PluginChoice::Devmem;
    options.jobs = args.jobs.or(devmem.then_some(NonZeroUsize::MIN));
    options.memory = args.memory.kind();
    options.gpu = args.gpu;
    options.only = args.only.clone();
    options.namespaces = args.namespaces.clone();
    options.destructive = args.destructive;
    options.deadline = args.deadline.0;
    options.time = Some(budget.step().left());
    Ok(options)
}

fn silently(options: &Options) -> Result<Report, Failure> {
    run_checks(options, &mut |_| ()).map_err(|error| Failure::Usage(error.to_string()))
}

/// Prints each result as it comes, below the name of its group.
fn with_rows(options: &Options, transport: &Transport) -> Result<Report, Failure> {
    let progress = Progress::count();
    // Printed with the first result: a run with wrong options has no result.
    let mut title = Some(format!("plugin {} ({})\n", transport.plugin, transport.why));
    let mut group = None;
    let mut printed = Ok(());
    let report = run_checks(options, &mut |check| {
        progress.step(&check.name);
        let row = row(check);
        let heading = (row.is_some() && group != Some(check.group)).then(|| {
            group = Some(check.group);
            format!("\n{}\n", check.group)
        });
        let text: String = [title.take(), heading, row].into_iter().flatten().collect();
        // The checks go on without a reader: their processes have to be ended properly.
        if printed.is_ok() && !text.is_empty() {
            printed = progress.above(|| print(&text));
        }
    })
    .map_err(|error| Failure::Usage(error.to_string()))?;
    drop(progress);
    printed?;
    print(
        &[vec![String::new(), legend()], not_run(&report), vec![summary(&report)]]
            .concat()
            .join("\n"),
    )?;
    Ok(report)
}

/// Returns one check for people: result, name and section, with its text below. Returns `None` for
/// a check that was not run: one line covers all of these.
fn row(check: &CheckReport) -> Option<String> {
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
        Outcome::NotRun { .. } => return None,
    };
    let mut text = format!("  {result:<RESULT$} {:<NAME$} {}", check.name, check.section);
    for detail in details {
        text.push_str(&format!("\n  {:<RESULT$} {detail}", ""));
    }
    Some(text)
}

/// Returns a line for each reason why checks were not run. Below it stand their groups, as `--only`
/// takes them.
fn not_run(report: &Report) -> Vec<String> {
    let mut reasons: Vec<(&str, usize, Vec<String>)> = Vec::new();
    for check in &report.checks {
        let Outcome::NotRun { reason } = &check.outcome else { continue };
        let at = reasons.iter().position(|(known, ..)| known == reason).unwrap_or_else(|| {
            reasons.push((reason, 0, Vec::new()));
            reasons.len() - 1
        });
        let (_, count, groups) = &mut reasons[at];
        *count += 1;
        let group = check.group.to_string();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let line = |(reason, count, groups): &(&str, usize, Vec<String>)| {
        format!("{count} checks not run: {reason}\n  they are of {}", groups.join(", "))
    };
    reasons.iter().map(line).collect()
}

/// Document that the sections belong to.
fn legend() -> String {
    format!("§ = {CONTRACT}")
}

fn summary(report: &Report) -> String {
    let totals = report.totals();
    format!(
        "{} checks over {} memory: {} passed, {} failed, {} differing, {} skipped, {} not run",
        report.checks.len(),
        report.memory,
        totals.passed,
        totals.failed,
        totals.differing,
        totals.skipped,
        totals.not_run
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
mod tests;
