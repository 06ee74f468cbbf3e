//! Rules that keep tests fast: one test program for each crate, and two tiers.

use std::path::Path;

use cargo_metadata::TargetKind;

use super::comments::sources;

/// Files with tests that run one after the other, and what they share.
const SERIAL: &[(&str, &str)] = &[
    ("tcpx-tests/tests/suite/gpu.rs", "GPU 0, which some of them hold up on purpose"),
    ("tcpx-tests/tests/suite/gpu_one_sided.rs", "GPU 0"),
    ("tcpx-tests/tests/suite/gpu_group.rs", "GPUs 0 and 1"),
];

/// Each links the whole library.
#[test]
fn a_crate_has_one_test_program() {
    for (name, package) in super::workspace() {
        let tests = package.targets.iter().filter(|target| target.kind.contains(&TargetKind::Test));
        let names: Vec<&str> = tests.map(|target| target.name.as_str()).collect();
        assert!(names.is_empty() || names == ["suite"], "{name} has test programs {names:?}");
    }
}

/// `cargo xtask test deep` runs all tests that are ignored.
#[test]
fn only_deep_tests_are_ignored() {
    let lines = lines_with("#[ignore");
    let others = lines.iter().filter(|(_, line)| !line.starts_with("#[ignore = \"deep: "));
    let others: Vec<_> = others.collect();
    assert!(others.is_empty(), "{others:#?}");
}

/// A process of its own for each test is the other way.
#[test]
fn tests_run_at_the_same_time() {
    for (file, line) in lines_with("#[serial") {
        let is_listed = SERIAL.iter().any(|(name, _)| *name == file);
        assert!(is_listed, "{file}: {line}: say here what it shares with which other test");
    }
}

/// Lines of all sources that begin so, each with its file.
fn lines_with(beginning: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate lies in a folder");
    let mut found = Vec::new();
    for file in sources(root) {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with(beginning));
        found.extend(lines.map(|line| (name.clone(), line.to_owned())));
    }
    found
}
