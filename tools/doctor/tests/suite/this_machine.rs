//! Checks of the machine that runs the tests.

use std::path::Path;
use std::time::{Duration, Instant};

use tcpx_diagnosis::variables::{process_env, variables};
use tcpx_diagnosis::{Host, preflight};
use tcpx_doctor::environment::inspect;
use tcpx_doctor::{LiveKernel, examine};

#[test]
fn the_whole_examination_ends_with_complete_findings() {
    let env = process_env();
    let host = Host::this(&env);
    let start = Instant::now();
    let plugin = Path::new("/usr/local/tcpx/lib64/libnccl-net-tcpx.so");
    let report = examine(Some(plugin), None, &host, &LiveKernel::default());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    for finding in report.findings() {
        assert!(!finding.seen.is_empty() && !finding.cure.is_empty(), "{finding:?}");
        let unfilled = finding.cure.iter().chain([&finding.why]).find(|line| line.contains('<'));
        assert_eq!(unfilled, None, "{finding:?}");
    }
}

#[test]
fn preflight_agrees_with_the_examination() {
    let env = process_env();
    let host = Host::this(&env);
    let plugin = Path::new("/no/such/plugin.so");
    let fatal = preflight(plugin, None, &host).expect_err("there is no plugin");
    let all = examine(Some(plugin), None, &host, &LiveKernel::default()).fatal();
    assert_eq!(fatal, all);
}

#[test]
fn every_variable_has_a_row() {
    let rows = inspect(&process_env(), &[], 0);
    assert!(rows.len() >= variables().len());
}
