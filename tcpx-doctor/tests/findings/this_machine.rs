//! The checks on the machine that runs the tests, whatever it is.

use std::path::Path;
use std::time::{Duration, Instant};

use tcpx_doctor::environment::{inspect, process_env, variables};
use tcpx_doctor::topology::{gpus, nics};
use tcpx_doctor::{Host, Kernel, LiveKernel, examine, preflight};

#[test]
fn the_whole_examination_ends_and_says_something() {
    let (env, kernel) = (process_env(), LiveKernel::default());
    let host = Host::this(&env, &kernel);
    let start = Instant::now();
    let report = examine(Some(Path::new("/usr/local/tcpx/lib64/libnccl-net-tcpx.so")), None, &host);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    for finding in report.findings() {
        assert!(!finding.seen.is_empty() && !finding.cure.is_empty(), "{finding:?}");
        let unfilled = finding.cure.iter().chain([&finding.why]).find(|line| line.contains('<'));
        assert_eq!(unfilled, None, "{finding:?}");
    }
}

#[test]
fn preflight_agrees_with_the_examination() {
    let (env, kernel) = (process_env(), LiveKernel::default());
    let host = Host::this(&env, &kernel);
    let plugin = Path::new("/no/such/plugin.so");
    let fatal = preflight(plugin, None, &host).expect_err("there is no plugin");
    let all = examine(Some(plugin), None, &host).fatal();
    assert_eq!(fatal, all);
}

#[test]
fn loopback_is_an_interface_without_pci() {
    let addresses = LiveKernel::default().addresses().expect("addresses can be read");
    let nics = nics(Path::new("/"), &addresses);
    if let Some(loopback) = nics.iter().find(|nic| nic.name == "lo") {
        assert_eq!(loopback.pci_path, None);
        assert!(loopback.ifindex > 0);
    }
    // Must not fail either way.
    let _ = gpus(Path::new("/"));
}

#[test]
fn every_variable_has_a_row() {
    let rows = inspect(&process_env(), &[], 0);
    assert!(rows.len() >= variables().len());
}
