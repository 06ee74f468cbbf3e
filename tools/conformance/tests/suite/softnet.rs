//! Conformance of the software plugin, and the behaviour of the runner.

use std::num::NonZeroUsize;
use std::time::Duration;

use tcpx_conformance::{
    CheckReport, MemoryKind, Options, Outcome, PluginSource, Report, RunError, checks, child_main,
    run,
};
use tcpx_cuda::CudaGpu;
use tcpx_sys::{Logger, NcclNetV7, NcclResult};
use tcpx_testkit::PATIENCE;

/// Runs the agents: this program with this one test.
#[test]
fn agent() {
    child_main(Some(table));
}

/// Variable that removes a member from the table that the agents use.
const WITHOUT_MEMBER: &str = "WITHOUT_MEMBER";
/// Variable that gives the table the name of the hardware plugin, and its answer to `init` without
/// a GPU: exit(1).
const AS_HARDWARE: &str = "AS_HARDWARE";

fn table() -> NcclNetV7 {
    let mut table = tcpx_softnet::table();
    if std::env::var_os(WITHOUT_MEMBER).is_some() {
        table.iflush = None;
    }
    if std::env::var_os(AS_HARDWARE).is_some() {
        table.name = c"GPUDirectTCPX_v7".as_ptr();
        if CudaGpu::count().unwrap_or(0) == 0 {
            table.init = Some(init_without_gpu);
        }
    }
    table
}

#[expect(clippy::exit, reason = "the original's answer")]
extern "C" fn init_without_gpu(_: Option<Logger>) -> NcclResult {
    std::process::exit(1)
}

fn options() -> Options {
    let mut options = Options::new(PluginSource::Table);
    options.arguments = ["softnet::agent", "--exact", "--nocapture"].map(Into::into).to_vec();
    // No check of a healthy plugin comes near it; a busy machine, or one that runs instrumented
    // code, may be slow.
    options.deadline = PATIENCE;
    // Most of the time of most checks passes with waiting.
    options.jobs = NonZeroUsize::new(6);
    // More than there are pages for.
    options.recycled_bytes = 128 << 20;
    // Pages that come back are overwritten, and there are few of them: a leak or an early recycling
    // shows.
    options.environment = [("TCPX_SOFT_POISON", "1"), ("TCPX_SOFT_POOL_BYTES", "33554432")]
        .map(|(k, v)| (k.into(), v.into()))
        .to_vec();
    options
}

fn run_all(options: &Options) -> Report {
    let mut seen = Vec::new();
    let mut on_result = |result: &CheckReport| seen.push(result.clone());
    let report = run(options, &mut on_result).expect("sensible options");
    assert_eq!(report.checks, seen, "on_result gets every report");
    report
}

fn failures(report: &Report) -> Vec<String> {
    let failed = report.checks.iter().filter(|check| check.outcome.failed());
    failed.map(|check| format!("{} {}: {}", check.name, check.section, check.outcome)).collect()
}

/// Checks of rules that the original breaks and the software plugin keeps.
const STRICT: [&str; 3] = ["lifecycle.disabled", "lifecycle.connect_copies", "lifecycle.strays"];

/// Checks that need a file.
const NO_FILE: [&str; 2] = ["abi.symbol", "abi.other_symbols"];

/// Asserts that no check failed, that all were run, and that only allowed ones were skipped.
fn assert_conforms(report: &Report, may_skip: impl Fn(&str) -> bool) {
    assert_eq!(failures(report), Vec::<String>::new());
    assert!(report.is_complete(), "{:?}", report.totals());
    for check in &report.checks {
        if let Outcome::Skip { reason } = &check.outcome {
            assert!(may_skip(&check.name), "{} was skipped: {reason}", check.name);
        }
    }
}

#[test]
fn emulated_device_memory_conforms_destructive_checks_included() {
    let mut options = options();
    options.destructive = true;
    let report = run_all(&options);
    assert_eq!(report.checks.len(), checks().len());
    let two_gpus = "lifecycle.accept_other_gpu";
    assert_conforms(&report, |name| NO_FILE.contains(&name) || name == two_gpus);
    for check in STRICT {
        assert_eq!(report.outcome(check), Some(&Outcome::Pass), "{check}");
    }
}

#[test]
#[ignore = "deep: a gibibyte of pattern, made and checked"]
fn every_page_of_a_gibibyte_is_given_back() {
    let mut options = options();
    options.recycled_bytes = 1 << 30;
    options.only = vec!["progress.recycling".to_owned()];
    assert_conforms(&run_all(&options), |_| false);
}

#[test]
fn some_of_host_memory_conforms() {
    host_memory_conforms(&["requests.irecv_wild_data", "fifo.receive_done_once", "sizes.sequence"]);
}

#[test]
#[ignore = "deep: another form of most checks"]
fn all_of_host_memory_conforms() {
    host_memory_conforms(&["requests", "fifo", "sizes", "progress", "comms"]);
}

fn host_memory_conforms(only: &[&str]) {
    let mut options = options();
    options.memory = Some(MemoryKind::Host);
    options.only = only.iter().map(ToString::to_string).collect();
    let report = run_all(&options);
    // What only device receives have.
    let device_only = [
        "wild",
        "small_mhandle",
        "posted_smaller",
        "posted_zero",
        "receiver_needs_test",
        "shared_page",
    ];
    assert_conforms(&report, |name| {
        device_only.iter().any(|part| name.contains(part)) || destructive(name)
    });
}

fn destructive(name: &str) -> bool {
    checks().iter().any(|check| check.name == name && check.destructive)
}

#[test]
fn some_of_helper_threads_and_several_sockets_conforms() {
    helper_threads_and_several_sockets_conform(&[
        "sizes.sequence",
        "peer.killed_sender",
        "lifecycle.close_leaks_nothing",
    ]);
}

#[test]
#[ignore = "deep: another form of most checks"]
fn all_of_helper_threads_and_several_sockets_conforms() {
    helper_threads_and_several_sockets_conform(&[
        "fifo",
        "sizes",
        "entries",
        "queue",
        "progress",
        "peer",
        "comms",
        "lifecycle.close_leaks_nothing",
    ]);
}

fn helper_threads_and_several_sockets_conform(only: &[&str]) {
    let mut options = options();
    for (name, value) in
        [("TCPX_SOFT_HELPERS", "1"), ("NCCL_NSOCKS_PERTHREAD", "2"), ("NCCL_SOCKET_NTHREADS", "2")]
    {
        options.environment.push((name.into(), value.into()));
    }
    options.only = only.iter().map(ToString::to_string).collect();
    assert_conforms(&run_all(&options), destructive);
}

#[test]
fn cuda_memory_conforms_or_is_not_run_and_says_why() {
    let mut options = options();
    options.memory = Some(MemoryKind::Cuda);
    options.only = ["abi", "sizes", "entries", "host"].map(str::to_owned).to_vec();
    let gpus = CudaGpu::count();
    for check in run_all(&options).checks {
        let needs_no_gpu = check.name.starts_with("abi.") || check.name == "host.to_host";
        match (&gpus, &check.outcome) {
            (_, Outcome::Pass | Outcome::Differs { .. }) if needs_no_gpu => {}
            (_, Outcome::Skip { .. })
                if NO_FILE.contains(&check.name.as_str()) || destructive(&check.name) => {}
            (Ok(1..), Outcome::Pass) => {}
            (Ok(0) | Err(_), Outcome::NotRun { reason }) => {
                assert!(reason.starts_with("there is no GPU memory"), "{}: {reason}", check.name);
            }
            (gpus, outcome) => panic!("{}: {outcome} with {gpus:?}", check.name),
        }
    }
}

#[test]
fn a_gpu_that_is_not_there_is_the_reason() {
    let missing = CudaGpu::count().unwrap_or(0) + 3;
    let mut options = options();
    // Naming one asks for its memory.
    options.gpu = Some(missing);
    options.only = vec!["sizes.bytes_1".to_owned()];
    let expected = match CudaGpu::count() {
        Ok(_) => format!("there is no GPU {missing}"),
        Err(error) => error.to_string(),
    };
    let report = run_all(&options);
    assert_eq!((report.memory, report.is_complete()), (MemoryKind::Cuda, false));
    for check in report.checks {
        let Outcome::NotRun { reason } = &check.outcome else { panic!("{}", check.outcome) };
        assert!(reason.contains(&expected), "{reason}");
    }
}

fn hardware() -> Options {
    let mut options = options();
    options.environment.push((AS_HARDWARE.into(), "1".into()));
    options
}

#[test]
fn the_hardware_plugin_is_checked_over_gpu_memory_or_not_run() {
    let mut options = hardware();
    options.only = ["abi", "lifecycle", "sizes.bytes_1", "host.to_host"].map(str::to_owned).into();
    // The agents of a process with GPUs hold one of them.
    let has_gpu = CudaGpu::count().unwrap_or(0) > 0;
    let report = run_all(&options);
    assert_eq!(report.memory, MemoryKind::Cuda);
    assert_eq!(failures(&report), Vec::<String>::new());
    assert_eq!(report.outcome("abi.name"), Some(&Outcome::Pass));
    assert_eq!(report.is_complete(), has_gpu);
    let why = |check: &CheckReport| match &check.outcome {
        Outcome::NotRun { reason } => Some(reason.clone()),
        _ => None,
    };
    let mut reasons: Vec<String> = report.checks.iter().filter_map(why).collect();
    reasons.dedup();
    assert_eq!(reasons.len(), usize::from(!has_gpu), "one line says why: {reasons:?}");
    let tried = |name| !matches!(report.outcome(name), Some(Outcome::NotRun { .. }));
    assert!(tried("abi.members") && tried("abi.dma_buf"), "what needs no GPU");
    assert_eq!((tried("abi.limits"), tried("lifecycle.init")), (has_gpu, has_gpu));
}

#[test]
fn the_hardware_plugin_is_not_checked_over_other_memory() {
    for memory in [MemoryKind::Host, MemoryKind::Emulated] {
        let mut options = hardware();
        options.memory = Some(memory);
        let refused = run(&options, &mut |check| panic!("{check:?}"));
        assert_eq!(refused, Err(RunError::HardwareMemory { memory }));
    }
}

#[test]
fn destructive_checks_are_skipped_by_default() {
    let mut options = options();
    options.only = vec!["lifecycle.connect_after_comm".to_owned()];
    let report = run_all(&options);
    assert!(matches!(report.checks[0].outcome, Outcome::Skip { .. }), "{report:?}");
}

#[test]
fn a_report_survives_json() {
    let mut options = options();
    options.only = vec!["abi".to_owned()];
    let report = run_all(&options);
    let json = serde_json::to_string(&report).expect("serialises");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("parses"), report);
    let totals = report.totals();
    assert_eq!(
        totals.passed + totals.failed + totals.differing + totals.skipped + totals.not_run,
        report.checks.len()
    );
}

#[test]
fn unknown_names_and_short_deadlines_are_errors() {
    let mut unknown = options();
    unknown.only = vec!["fifo.nonsense".to_owned()];
    let name = "fifo.nonsense".to_owned();
    assert_eq!(run(&unknown, &mut |_| {}), Err(RunError::UnknownCheck { name }));
    let deadline = Duration::from_millis(5);
    let mut hurried = options();
    hurried.deadline = deadline;
    assert_eq!(run(&hurried, &mut |_| {}), Err(RunError::DeadlineTooShort { deadline }));
}

#[test]
fn a_missing_plugin_fails_its_checks_and_not_the_program() {
    let mut options = options();
    options.target = PluginSource::Path("/nonexistent/plugin.so".into());
    options.only = vec!["abi.symbol".to_owned(), "sizes.bytes_1".to_owned()];
    let report = run_all(&options);
    for check in &report.checks {
        let Outcome::Fail { got, .. } = &check.outcome else { panic!("{check:?}") };
        assert!(got.contains("no such file"), "{got}");
    }
    assert!(report.failed());
}

#[test]
fn a_failing_init_repeats_what_the_plugin_logged() {
    let mut options = options();
    options.environment.push(("NCCL_DYNAMIC_CHUNK_SIZE".into(), "512K".into()));
    options.only = vec!["lifecycle.init".to_owned()];
    let report = run_all(&options);
    let Outcome::Fail { got, .. } = &report.checks[0].outcome else { panic!("{report:?}") };
    assert!(got.contains("NCCL_DYNAMIC_CHUNK_SIZE"), "{got}");
}

#[test]
fn a_null_member_is_named() {
    let mut options = options();
    options.environment.push((WITHOUT_MEMBER.into(), "1".into()));
    options.only = vec!["abi.members".to_owned(), "abi.name".to_owned()];
    let report = run_all(&options);
    let Some(Outcome::Fail { got, .. }) = report.outcome("abi.members") else {
        panic!("{report:?}")
    };
    assert!(got.contains("`iflush`"), "{got}");
    assert!(matches!(report.outcome("abi.name"), Some(Outcome::Skip { .. })), "{report:?}");
}

#[test]
fn a_program_that_is_no_agent_is_reported() {
    let mut options = options();
    options.program = Some("/bin/true".into());
    options.only = vec!["lifecycle.init".to_owned()];
    let report = run_all(&options);
    assert!(report.failed(), "{report:?}");
    options.program = Some("/nonexistent/agent".into());
    assert!(run_all(&options).failed());
}
