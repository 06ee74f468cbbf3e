//! No cycle of files: when one file uses another of its crate, that one does not use it, not even
//! by way of others. `impl` blocks are no use, and neither are `mod` lines.

use std::collections::BTreeSet;

use super::graph::{components, describe};
use super::resolve::{FileEdges, edges};
use super::tree::Tree;

#[test]
fn files_use_each_other_downwards_only() {
    println!("{:22} files rooms edges cycles (files in them)", "crate");
    let mut wrong = String::new();
    for (name, package) in super::workspace() {
        let mut row = [0; 5];
        for tree in super::trees(package) {
            let edges = edges(tree);
            let components = components(&edges);
            let tangled: usize = components.iter().map(|component| component.files.len()).sum();
            let more =
                [tree.files.len(), rooms(tree), edges.lines.len(), components.len(), tangled];
            for (sum, more) in row.iter_mut().zip(more) {
                *sum += more;
            }
            for component in &components {
                wrong += &format!("{name}: {}", describe(tree, &edges, component));
            }
        }
        let [files, rooms, edges, cycles, tangled] = row;
        println!("{name:22} {files:5} {rooms:5} {edges:5} {cycles:7} ({tangled})");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// A room is a module of the crate's root with all files below it.
#[test]
fn rooms_use_each_other_downwards_only() {
    let mut wrong = String::new();
    for (name, package) in super::workspace() {
        for tree in super::trees(package) {
            let files = edges(tree);
            let mut rooms = FileEdges::default();
            for ((from, to), line) in &files.lines {
                let (from, to) = (room(tree, *from), room(tree, *to));
                if from != to {
                    rooms.lines.entry((from, to)).or_insert(*line);
                }
            }
            for component in components(&rooms) {
                wrong += &format!("{name}, by rooms: {}", describe(tree, &rooms, &component));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The file of the room that a file is in.
fn room(tree: &Tree, file: usize) -> usize {
    let mut module = tree.modules.iter().position(|module| module.file == file).unwrap_or(0);
    while module != 0 && tree.modules[module].parent != 0 {
        module = tree.modules[module].parent;
    }
    tree.modules[module].file
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
