//! Layers that a machine checks: the crates use each other downwards only, and so do the files of a
//! crate, also those that hold one type. No two types of a crate share a name, comments are no
//! wider than code and have the words of the field, and documents lead to what is there.
//!
//! `cargo test -p tcpx-tests --test suite layering -- --nocapture` prints how large each crate is.
//!
//! `tree` reads the sources of one library or program and notes which module writes which path,
//! with the help of `attributes`, which know what is there for tests only, and of `syntax`, which
//! knows no tree. `resolve` says which file such a path means, and `graph` finds cycles among the
//! files: `made_up` tests the three. The checks are `crates`, `cycles`, `methods`, `names`,
//! `comments`, `words`, `documents`; `packages`, for what crates.io asks; and `suites`, for how
//! tests are kept fast.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use self::tree::Tree;
use cargo_metadata::{MetadataCommand, Package, TargetKind};

mod attributes;
mod comments;
mod crates;
mod cycles;
mod documents;
mod graph;
mod made_up;
mod methods;
mod names;
mod packages;
mod resolve;
mod suites;
mod syntax;
mod tree;
mod words;

/// All crates of the workspace, by name.
fn workspace() -> &'static BTreeMap<String, Package> {
    static WORKSPACE: OnceLock<BTreeMap<String, Package>> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let metadata = MetadataCommand::new()
            .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
            .no_deps()
            .exec()
            .expect("cargo metadata");
        metadata.packages.into_iter().map(|package| (package.name.to_string(), package)).collect()
    })
}

/// The library and the programs of a crate, which are read once for all checks. Tests, benches,
/// examples and build scripts are none.
fn trees(package: &Package) -> &'static [Tree] {
    static TREES: OnceLock<BTreeMap<String, Vec<Tree>>> = OnceLock::new();
    let read = || workspace().iter().map(|(name, package)| (name.clone(), read(package))).collect();
    &TREES.get_or_init(read)[package.name.as_str()]
}

fn read(package: &Package) -> Vec<Tree> {
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
    let is_product = |kind: &TargetKind| {
        matches!(
            kind,
            TargetKind::Lib
                | TargetKind::RLib
                | TargetKind::CDyLib
                | TargetKind::StaticLib
                | TargetKind::Bin
        )
    };
    package
        .targets
        .iter()
        .filter(|target| target.kind.iter().any(is_product))
        .map(|target| {
            let root = target.src_path.strip_prefix(folder).expect("sources lie in the package");
            let read = |path: &Path| std::fs::read_to_string(folder.as_std_path().join(path)).ok();
            Tree::read(root.as_std_path(), &read)
        })
        .collect()
}
