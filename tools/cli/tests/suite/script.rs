//! Tests of tools/scripts/run_tcpx_test.sh with the real command: two ends over loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tcpx::{EXECUTABLE, Finished, Running, Tcpx};

/// A `PATH` in which the built command is found, and the script.
fn search_path() -> String {
    let directory = Path::new(EXECUTABLE).parent().unwrap().display();
    format!("{directory}:/usr/bin:/bin")
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/run_tcpx_test.sh")
}

fn start(words: &[&str]) -> Running {
    let mut command = Command::new("sh");
    command.arg(script()).args(words);
    // The profile names NICs that only an A3 High host has.
    command.env("PATH", search_path()).env("TCPX_PLUGIN", "soft");
    Tcpx::of(command).start()
}

fn run_pair(test: &str, options: &[&str]) -> [Finished; 2] {
    let server = start(&[test, "server", "--port", "0"]);
    let port = server.port().to_string();
    let client = start(&[&[test, "127.0.0.1", "--port", &port], options].concat()).finish();
    [client, server.finish()]
}

#[test]
fn both_ends_of_each_test_succeed() {
    for (test, options, expected) in [
        ("transfer", &[][..], "PASSED: 23 bytes"),
        ("connection", &[], "connected and closed"),
        ("perf", &["--size", "64K", "--iters", "2", "--warmup", "0"], "64 KiB"),
    ] {
        for finished in run_pair(test, options) {
            assert_eq!(finished.status, Some(0), "{test}: {finished}");
            assert!(finished.stdout.contains(expected), "{test}: {finished}");
        }
    }
}
