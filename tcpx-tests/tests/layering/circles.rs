//! No circle of files: when one file uses another of its crate, that one does not use it, not even
//! by way of others. `impl` blocks are no use, and neither are `mod` lines.

use std::collections::BTreeSet;

use super::graph::{describe, knots};
use super::resolve::edges;
use super::tree::Tree;

/// Crates that still have circles. This list only shrinks: one without any must leave it.
const WITH_CIRCLES: &[&str] = &[
    "tcpx-capi",
    "tcpx-cli",
    "tcpx-conformance",
    "tcpx-core",
    "tcpx-cuda",
    "tcpx-doctor",
    "tcpx-rx",
    "tcpx-softnet",
    "tcpx-unpack",
];

#[test]
fn files_use_each_other_downwards_only() {
    println!("{:22} files rooms edges circles (files in them)", "crate");
    let (mut known, mut wrong) = (String::new(), String::new());
    for (name, package) in super::workspace() {
        let is_listed = WITH_CIRCLES.contains(&name.as_str());
        let mut row = [0; 5];
        for tree in super::trees(&package) {
            let edges = edges(&tree);
            let knots = knots(&edges);
            let tangled: usize = knots.iter().map(|knot| knot.files.len()).sum();
            let more = [tree.files.len(), rooms(&tree), edges.lines.len(), knots.len(), tangled];
            for (sum, more) in row.iter_mut().zip(more) {
                *sum += more;
            }
            for knot in &knots {
                let text = format!("{name}: {}", describe(&tree, &edges, knot));
                if is_listed { known += &text } else { wrong += &text }
            }
        }
        let [files, rooms, edges, circles, tangled] = row;
        println!("{name:22} {files:5} {rooms:5} {edges:5} {circles:7} ({tangled})");
        if circles == 0 && is_listed {
            wrong += &format!("{name} has no circles any more: take it off the list\n");
        }
    }
    println!("\n{known}");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Modules with files below them, but for the crate's root.
fn rooms(tree: &Tree) -> usize {
    let has_own_file = |module: &&super::tree::Module| {
        module.parent != 0 && module.file != tree.modules[module.parent].file
    };
    let parents: BTreeSet<usize> =
        tree.modules.iter().filter(has_own_file).map(|module| module.parent).collect();
    parents.len()
}
