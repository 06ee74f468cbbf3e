//! Dependencies between the crates point down only. An edge that is not in this table is a
//! decision: add it here and in ARCHITECTURE.md, or take it out. One that nothing needs any more
//! goes too.

use std::collections::BTreeSet;

use cargo_metadata::DependencyKind;

use super::resolve::edges;
use super::{trees, workspace};

/// Siblings that each crate may use. Programs and test crates, on which no crate depends, may use
/// any library.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tcpx-wire", &[]),
    ("tcpx-seal", &[]),
    ("tcpx-sys", &[]),
    ("tcpx-rx", &[]),
    ("tcpx-cuda", &[]),
    ("tcpx-unpack", &["tcpx-rx", "tcpx-cuda"]),
    ("tcpx-comm", &[]),
    (
        "tcpx-softnet",
        &["tcpx-sys", "tcpx-seal", "tcpx-rx", "tcpx-comm", "tcpx-cuda", "tcpx-devmem"],
    ),
    ("tcpx-diagnosis", &["tcpx-sys"]),
    ("tcpx-devmem", &["tcpx-rx", "tcpx-comm", "tcpx-diagnosis"]),
    ("tcpx-doctor", &["tcpx-diagnosis", "tcpx-devmem"]),
    ("tcpx-conformance", &["tcpx-sys", "tcpx-cuda", "tcpx-wire"]),
    (
        "tcpx-core",
        &[
            "tcpx-protocol",
            "tcpx-seal",
            "tcpx-sys",
            "tcpx-wire",
            "tcpx-rx",
            "tcpx-cuda",
            "tcpx-unpack",
            "tcpx-softnet",
            "tcpx-diagnosis",
        ],
    ),
    // No socket, no clock, no plugin: what decides can be run without any.
    ("tcpx-protocol", &["tcpx-seal", "tcpx-wire"]),
    // Only tests use it, those of any crate.
    ("tcpx-testkit", &[]),
    // The software plugin misbehaving: tests of any crate are over it, that of the plugin too, and
    // no product. What it does on its own it shares with the plugin: what travels on the sockets,
    // and what the driver exports.
    (
        "tcpx-softnet-faults",
        &["tcpx-testkit", "tcpx-sys", "tcpx-comm", "tcpx-cuda", "tcpx-softnet"],
    ),
    // Tests load these; nothing is built on them.
    ("tcpx-faulty-plugin", &["tcpx-sys", "tcpx-softnet", "tcpx-softnet-faults"]),
    ("tcpx-original-plugin", &["tcpx-sys", "tcpx-softnet", "tcpx-softnet-faults"]),
    ("tcpx-capi", &["tcpx-core"]),
    // A stand-in for NVIDIA's library must not share a mistake with what runs over it.
    ("tcpx-fake-cuda", &[]),
];

#[test]
fn edges_point_down() {
    let packages = workspace();
    for (name, allowed) in ALLOWED {
        let package =
            packages.get(*name).unwrap_or_else(|| panic!("{name} is gone: update this table"));
        let used: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
            .map(|dependency| dependency.name.as_str())
            .filter(|dependency| packages.contains_key(*dependency))
            .collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let unknown: Vec<_> = used.difference(&allowed).collect();
        assert!(unknown.is_empty(), "{name} uses {unknown:?}, which the table does not allow");
        let unused: Vec<_> = allowed.difference(&used).collect();
        assert!(unused.is_empty(), "{name} does not use {unused:?}, which the table allows");
    }
}

#[test]
fn every_edge_is_used_in_the_source() {
    let packages = workspace();
    for (name, package) in packages {
        let named: BTreeSet<String> =
            trees(package).iter().flat_map(|tree| edges(tree).foreign).collect();
        let unused: Vec<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal)
            .map(|dependency| dependency.name.as_str())
            .filter(|dependency| packages.contains_key(*dependency))
            .filter(|dependency| !named.contains(&dependency.replace('-', "_")))
            .collect();
        assert!(unused.is_empty(), "{name} depends on {unused:?} and never names them");
    }
}

#[test]
fn every_library_is_in_the_table() {
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let used_by_others: BTreeSet<String> = workspace()
        .values()
        .filter(|package| known.contains(package.name.as_str()))
        .flat_map(|package| package.dependencies.iter().map(|dependency| dependency.name.clone()))
        .collect();
    for name in workspace().keys().filter(|name| used_by_others.contains(*name)) {
        assert!(
            known.contains(name.as_str()),
            "{name} is used by a library and is not in the table"
        );
    }
}

#[test]
fn the_receive_logic_depends_on_nothing() {
    let packages = workspace();
    let normal: Vec<&str> = packages["tcpx-rx"]
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
        .collect();
    assert!(normal.is_empty(), "{normal:?}");
}
