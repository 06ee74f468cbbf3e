//! Every metric is documented, and dashboard and alerts ask for metrics that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tcpx_tests::sessions::{connect, lively, open};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(docs().join(name)).unwrap()
}

/// Words that are names of metrics. Rust's and C's functions of such names are no metrics.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_name = |char: char| char.is_ascii_lowercase() || char == '_';
    let words = text.split(|char| !is_name(char)).filter(|word| word.starts_with("tcpx_"));
    let others = ["tcpx_core", "tcpx_metrics_text", "tcpx_peer_"];
    words.filter(|word| !others.contains(word)).map(str::to_owned).collect()
}

/// The metrics of the doctor, which are written where the doctor is.
const DOCTORS: [&str; 5] = [
    "tcpx_doctor_findings",
    "tcpx_doctor_finding",
    "tcpx_doctor_exit_status",
    "tcpx_doctor_last_run_timestamp_seconds",
    "tcpx_doctor_info",
];

/// The page of a session that has a peer and a channel.
fn page() -> String {
    let [left, right] =
        ["left", "right"].map(|name| open(lively().name(name).connect_channels(true)));
    connect(&left, &right);
    let page = left.metrics_text();
    assert!(page.contains("peer=\"right\"") && page.contains("nic=\""), "{page}");
    page
}

/// Names of all metrics.
fn declared() -> BTreeSet<String> {
    let page = page();
    let lines = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = lines.map(|line| line.split(' ').next().unwrap().to_owned());
    names.chain(DOCTORS.map(str::to_owned)).collect()
}

#[test]
fn every_metric_is_documented_and_shown_and_no_other() {
    let declared = declared();
    assert_eq!(metrics_in(&read("metrics.md")), declared);
    let dashboard = read("metrics/grafana.json");
    let json: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(json["panels"].as_array().unwrap().len() > 20);
    let mut shown = metrics_in(&dashboard);
    // What the doctor's numbers are made of is shown by the ids.
    shown.extend(["tcpx_doctor_findings", "tcpx_doctor_info"].map(str::to_owned));
    assert_eq!(shown, declared);
    let alerts = metrics_in(&read("metrics/alerts.yml"));
    assert!(!alerts.is_empty() && alerts.is_subset(&declared), "{alerts:?}");
}

#[test]
fn prometheus_takes_the_page_and_the_alerts() {
    if Command::new("promtool").arg("--version").output().is_err() {
        tcpx_testkit::report_skip("there is no promtool");
        return;
    }
    let rules = docs().join("metrics/alerts.yml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(rules).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), page()).unwrap();
    let checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(file.reopen().unwrap())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}
