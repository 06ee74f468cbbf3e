//! Tests of `tcpx conformance`: lists, results for people and for machines, and what it refuses.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_testkit::process::send;

use crate::tcpx::timeout::with_timeout;
use crate::tcpx::{Finished, Signal, Tcpx, children_of, library};

#[test]
fn the_built_in_plugin_passes_a_group() {
    let finished = Tcpx::new(&["conformance", "--plugin", "soft", "--only", "abi"]).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    assert!(
        finished.stdout.starts_with("plugin soft (named by flag or variable)\n\nabi\n"),
        "{finished}"
    );
    for words in ["  pass     abi.members ", "  skip     abi.symbol ", "§1.2", " 0 failed, "] {
        assert!(finished.stdout.contains(words), "{words}: {finished}");
    }
    assert!(finished.stderr.is_empty(), "{finished}");
}

#[test]
fn machines_get_one_object() {
    let words = ["conformance", "--plugin", "soft", "--json", "--memory", "host"];
    let finished = Tcpx::new(&[&words[..], &["--only", "abi.members"]].concat()).run();
    let report = finished.json();
    assert_eq!(report["transport"]["plugin"], "soft");
    assert_eq!(report["memory"], "host");
    assert_eq!(report["failed"], false);
    assert_eq!(report["complete"], true);
    assert_eq!(report["totals"]["passed"], 1);
    assert_eq!(report["checks"][0]["name"], "abi.members");
    assert_eq!(report["checks"][0]["outcome"], "pass");
    assert_eq!(report["checks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_plugin_that_breaks_rules_fails_with_what_was_expected() {
    // A file that no linker loads breaks the first rule already.
    let file = tempfile::NamedTempFile::with_suffix(".so").unwrap();
    std::fs::write(file.path(), "no library\n").unwrap();
    let path = file.path().to_str().unwrap();
    let words = ["conformance", "--plugin", path, "--only", "abi.net_device"];
    let finished = Tcpx::new(&words).run();
    assert_eq!(finished.status, Some(1), "{finished}");
    for words in ["  FAIL     abi.net_device ", "rule: ", "expected: ", "got: ", " 1 failed, "] {
        assert!(finished.stdout.contains(words), "{words}: {finished}");
    }
    let json = Tcpx::new(&[&words[..], &["--json"]].concat()).run();
    assert_eq!(json.status, Some(1), "{json}");
    let report = json.object();
    assert_eq!(report["failed"], true);
    assert!(report["checks"][0]["outcome"]["fail"]["expected"].is_string(), "{json}");
}

/// Processes that are stopped, each as it comes, hold up every check.
#[test]
fn a_run_ends_in_time_whatever_its_processes_do() {
    with_timeout(1, |timeout| {
        let flag = timeout.flag();
        let words = ["conformance", "--plugin", "soft", "--only", "fifo", "--timeout", &flag];
        let start = Instant::now();
        let mut running = Tcpx::new(&words).start();
        let mut stopped = None;
        while running.process.try_wait().unwrap().is_none() {
            for child in children_of(running.process.id()) {
                // It may have ended meanwhile.
                let is_there = send(Signal::STOP, child).is_ok();
                stopped = stopped.or(is_there.then(Instant::now));
            }
            thread::yield_now();
        }
        let finished = running.finish();
        // A check has 30 s of its own, and there are many.
        assert!(start.elapsed() < Duration::from_secs(28), "{finished}");
        stopped.filter(|moment| timeout.had_half(start, *moment))?;
        // None was broken, and some were not tried.
        assert_eq!(finished.status, Some(3), "{finished}");
        let why = why_not_run(&finished);
        assert!(why.ends_with("checks not run: the time of the run was over"), "{finished}");
        let groups = finished.stdout.lines().skip_while(|line| *line != why).nth(1);
        let groups = groups.expect("a line below it");
        assert_eq!(groups, "  they are of fifo", "{finished}");
        assert!(!finished.stdout.contains("FAIL"), "{finished}");
        finished.expect_alone();
        Some(())
    });
}

/// The one line that says why checks were not run.
fn why_not_run(finished: &Finished) -> &str {
    let lines = finished.stdout.lines();
    let why: Vec<&str> = lines.filter(|line| line.contains("not run: ")).collect();
    let [why] = why[..] else { panic!("one line says why: {finished}") };
    why
}

/// What a plugin does when anything but `init` is called: it ends the process.
const OTHER: &str = "static int other(void) { exit(1); }";

/// The hardware plugin by its name, with its answer to `init` where there is no driver. `needs`:
/// code with a symbol that it needs.
fn hardware(directory: &Path, needs: &str) -> String {
    let init = "static int init(void *logger) { exit(1); }";
    library(directory, "GPUDirectTCPX_v7", &format!("{needs}\n{init}\n{OTHER}"))
}

#[test]
fn a_plugin_that_hangs_in_every_check_is_over_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let hangs = "static int init(void *logger) { for (;;) pause(); }";
    let plugin = library(directory.path(), "Other_v7", &format!("{hangs}\n{OTHER}"));
    // The shortest time that a check may have.
    let words = ["conformance", "--plugin", &plugin, "--deadline", "1", "--jobs", "1"];
    let start = Instant::now();
    let finished = Tcpx::new(&words).args(&["--only", "fifo", "--timeout", "6"]).run();
    // Each check may hang for 3 s, and there are eleven that call init.
    assert!(start.elapsed() < Duration::from_secs(30), "{finished}");
    assert_eq!(finished.status, Some(1), "{finished}");
    for words in ["`init` returns before the deadline", "not run: the time of the run was over"] {
        assert!(finished.stdout.contains(words), "{words}: {finished}");
    }
    finished.expect_alone();
}

#[test]
fn a_run_has_time_by_what_runs_at_once_and_the_memory_that_suits_the_plugin() {
    let help = Tcpx::new(&["conformance", "--help"]).run();
    let after = |flag| help.stdout.split_once(flag).expect(flag).1;
    let time = after("--timeout <SECONDS>").split_once("[default: ").unwrap().1;
    let words = time.split_once(']').unwrap().0.split_whitespace().collect::<Vec<_>>().join(" ");
    let usual = "180; 360 where two or three checks run at a time, 720 where they run one by one";
    assert_eq!(words, usual);
    assert_eq!(
        after("--memory <KIND>").split_once("[default: ").unwrap().1.get(..5),
        Some("auto]")
    );
}

/// An ordinal that no machine has, so that the hardware plugin has no GPU here.
const NO_GPU: [&str; 2] = ["--gpu", "4096"];

#[test]
fn the_hardware_plugin_without_a_gpu_is_said_to_be_unchecked() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = hardware(directory.path(), "");
    let words = ["conformance", "--plugin", &plugin];
    let finished = Tcpx::new(&[&words[..], &NO_GPU].concat()).run();
    assert_eq!(finished.status, Some(3), "{finished}");
    let why = why_not_run(&finished);
    assert!(why.contains("there is no GPU memory to check with: "), "{finished}");
    assert!(finished.stdout.contains("  pass     abi.members "), "{finished}");
    assert!(finished.stdout.contains("checks over cuda memory: 5 passed, 0 failed"), "{finished}");
    finished.expect_alone();
}

/// Where there is no driver, the original cannot even be loaded.
#[test]
fn the_hardware_plugin_without_a_driver_is_said_to_be_unchecked() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = hardware(directory.path(), "extern int cuAbsent; int *needs = &cuAbsent;");
    let words = ["conformance", "--plugin", &plugin, "--only", "abi", "--json"];
    let finished = Tcpx::new(&[&words[..], &NO_GPU].concat()).run();
    assert_eq!(finished.status, Some(3), "{finished}");
    let report = finished.object();
    assert_eq!((&report["totals"]["failed"], &report["complete"]), (&0.into(), &false.into()));
    let reason = &report["checks"][0]["outcome"]["not-run"]["reason"];
    assert!(reason.as_str().unwrap().contains("cuAbsent"), "{finished}");
}

#[test]
fn the_hardware_plugin_over_other_memory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = hardware(directory.path(), "");
    for memory in ["host", "emulated"] {
        let words = ["conformance", "--plugin", &plugin, "--memory", memory];
        let finished = Tcpx::new(&words).run();
        assert_eq!(finished.status, Some(2), "{finished}");
        assert!(finished.stdout.is_empty(), "{finished}");
        for words in ["GPUDirectTCPX_v7", &format!("over {memory} memory"), "cuda"] {
            assert!(finished.stderr.contains(words), "{words}: {finished}");
        }
    }
}

#[test]
fn the_list_has_every_check_once() {
    let text = Tcpx::new(&["conformance", "--list"]).run();
    assert_eq!(text.status, Some(0), "{text}");
    let json = Tcpx::new(&["conformance", "--list", "--json"]).run().json();
    let checks = json["checks"].as_array().unwrap();
    let mut lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!(lines.pop(), Some("§ = docs/plugin-contract.md"), "{text}");
    assert_eq!(json["contract"], "docs/plugin-contract.md");
    assert!(checks.len() >= 60 && checks.len() == lines.len(), "{text}");
    for (line, check) in lines.into_iter().zip(checks) {
        assert!(line.starts_with(check["name"].as_str().unwrap()), "{line}");
        assert!(line.contains(check["what"].as_str().unwrap()), "{line}");
        assert_eq!(line.ends_with(" [destructive]"), check["destructive"] == true, "{line}");
    }
}

#[test]
fn invalid_options_are_refused_before_anything_runs() {
    let soft = ["conformance", "--plugin", "soft"];
    for (flags, status, words) in [
        (&["--only", "nope"][..], 2, &["no check and no group is named `nope`"][..]),
        (&["--deadline", "0.5"], 2, &["500ms", "at least"]),
        (&["--gpu", "0", "--memory", "host"], 2, &["--gpu 0", "--memory cuda"]),
        (&["--memory", "vram"], 2, &["vram", "emulated"]),
        (&["--list"], 2, &["--list", "cannot be used with"]),
    ] {
        let finished = Tcpx::new(&[&soft[..], flags].concat()).run();
        assert_eq!(finished.status, Some(status), "{finished}");
        assert!(finished.stdout.is_empty(), "{finished}");
        for words in words {
            assert!(finished.stderr.contains(words), "{words}: {finished}");
        }
    }
    let missing = Tcpx::new(&["conformance", "--plugin", "/nonexistent/plugin.so"]).run();
    assert_eq!(missing.status, Some(1), "{missing}");
    let expected = "error: plugin /nonexistent/plugin.so: no such file";
    assert!(missing.stderr.starts_with(expected), "{missing}");
    assert!(missing.stderr.ends_with("(see: tcpx explain TCPX-201)\n"), "{missing}");
}
