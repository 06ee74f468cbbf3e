//! Dependencies between the crates point down only. An edge that is not in this table is a decision: add it here and in
//! ARCHITECTURE.md, or take it out.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// What each crate may use of its siblings. Programs and test crates, which nobody builds on, may use any library.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tcpx-sys", &[]),
    ("tcpx-rx", &[]),
    ("tcpx-wire", &[]),
    ("tcpx-cuda", &[]),
    ("tcpx-unpack", &["tcpx-rx", "tcpx-cuda"]),
    ("tcpx-softnet", &["tcpx-sys", "tcpx-rx", "tcpx-cuda"]),
    ("tcpx-doctor", &["tcpx-sys", "tcpx-rx"]),
    ("tcpx-conformance", &["tcpx-sys", "tcpx-cuda", "tcpx-wire"]),
    (
        "tcpx-core",
        &["tcpx-sys", "tcpx-rx", "tcpx-cuda", "tcpx-unpack", "tcpx-softnet", "tcpx-doctor"],
    ),
    ("tcpx-capi", &["tcpx-core"]),
];

fn workspace() -> BTreeMap<String, Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    metadata.packages.into_iter().map(|package| (package.name.to_string(), package)).collect()
}

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
        assert!(used.is_subset(&allowed), "{name} uses {:?}", used.difference(&allowed));
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
