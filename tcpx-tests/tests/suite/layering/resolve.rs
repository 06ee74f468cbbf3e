//! Resolution of paths to the files that they mean.
//!
//! A path means the file that defines the last name that it has in this crate: `crate::a::b::Thing`
//! is an edge to the file of `b`, and so is `crate::a::b` by itself. A `mod` line on the way is no
//! edge.
//!
//! A re-export counts as an item of the file that holds it. When `a.rs` says `pub use b::Thing`,
//! then `crate::a::Thing` is an edge to `a.rs`, and the `pub use` one from `a.rs` to `a/b.rs`. So
//! the map of a room stands above all that it shows, and a file of the room that imports from its
//! neighbour through the map makes a cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{NameTarget, PathUse, Tree};

/// Limit on names that lead to names, above what any source file has.
const MAX_STEPS: usize = 32;
/// A glob opens as many ways as it brings names, so that few of them may follow each other.
const STEPS_OF_A_GLOB: usize = 8;

/// What one file uses of its crate.
#[derive(Debug, Default)]
pub(crate) struct FileEdges {
    /// From file to file, with the line of the first path that makes the edge.
    pub(crate) lines: BTreeMap<(usize, usize), usize>,
    /// First names of the paths that lead out of the crate, and of some that lead nowhere.
    pub(crate) foreign: BTreeSet<String>,
}

/// All edges between the files of a tree.
pub(crate) fn edges(tree: &Tree) -> FileEdges {
    let mut edges = FileEdges::default();
    for path_use in &tree.path_uses {
        let from = tree.modules[path_use.module].file;
        let mut files = BTreeSet::new();
        if !(Resolver { tree, files: &mut files }).path_use(path_use) {
            edges.foreign.extend(path_use.path.first().cloned());
        }
        for to in files.into_iter().filter(|to| *to != from) {
            let line = edges.lines.entry((from, to)).or_insert(path_use.line);
            *line = path_use.line.min(*line);
        }
    }
    edges
}

/// The module in which a type is defined that a path means, with its name there. `None` when the
/// path leads out of the crate, and for a type of a function's own.
pub(crate) fn definition(tree: &Tree, module: usize, path: &[String]) -> Option<(usize, String)> {
    Resolver { tree, files: &mut BTreeSet::new() }.definition(module, path, 0)
}

struct Resolver<'a> {
    tree: &'a Tree,
    files: &'a mut BTreeSet<usize>,
}

impl Resolver<'_> {
    /// Collects the files that a path means. False when it leads out of the crate.
    fn path_use(&mut self, path_use: &PathUse) -> bool {
        if let [name] = path_use.path.as_slice()
            && path_use.is_macro
            && !self.tree.modules[path_use.module].names.contains_key(name)
        {
            return self.macro_file(name);
        }
        self.walk(path_use.module, &path_use.path, 0)
    }

    /// A macro that is known by its place in the text, or by `#[macro_export]`.
    fn macro_file(&mut self, name: &str) -> bool {
        let Some(module) = self.tree.macros.get(name) else { return false };
        self.files.insert(self.tree.modules[*module].file);
        true
    }

    /// Follows a path that is written in `module`.
    fn walk(&mut self, module: usize, path: &[String], steps: usize) -> bool {
        let mut at = module;
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = 0,
                "super" => at = self.tree.modules[at].parent,
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        self.step(module, at, rest, steps)
    }

    /// Looks for the first of `path` among the names of module `at`.
    fn step(&mut self, origin: usize, at: usize, path: &[String], steps: usize) -> bool {
        let file = self.tree.modules[at].file;
        let Some((name, rest)) = path.split_first() else {
            self.files.insert(file);
            return true;
        };
        if steps > MAX_STEPS {
            return false;
        }
        let mut targets = self.targets(at, name, steps);
        if targets.is_empty() {
            // A name that a macro makes, or that comes from elsewhere.
            if origin == at {
                return false;
            }
            if !(at == 0 && self.macro_file(name)) {
                self.files.insert(file);
            }
            return true;
        }
        // A function may have its module's name. Paths go on through the module only, and a path
        // that ends here most likely means the module too.
        if targets.iter().any(|(_, target)| matches!(target, NameTarget::Module(_))) {
            targets.retain(|(_, target)| matches!(target, NameTarget::Module(_)));
        }
        let mut is_ours = false;
        for (owner, target) in targets {
            if origin != at && !matches!(target, NameTarget::Module(_)) {
                self.files.insert(file);
                is_ours = true;
            }
            is_ours |= match target {
                NameTarget::Module(child) => self.step(origin, child, rest, steps + 1),
                NameTarget::Item => true,
                // What the origin imports, it may also use by its name. What another module
                // imports is that module's, unless it is a module and the path goes on.
                NameTarget::Import(path) if origin == at => {
                    self.walk(owner, &[&path, rest].concat(), steps + 1)
                }
                NameTarget::Import(path) if !rest.is_empty() => {
                    match self.module(owner, &path, steps + 1) {
                        Some(module) => self.step(origin, module, rest, steps + 1),
                        None => true,
                    }
                }
                NameTarget::Import(_) => true,
            };
        }
        is_ours
    }

    /// What a name stands for in a module, each with the module in which to read it on. A name of
    /// the module's own hides those that a glob brings.
    fn targets(&self, at: usize, name: &str, steps: usize) -> Vec<(usize, NameTarget)> {
        let module = &self.tree.modules[at];
        if let Some(own) = module.names.get(name) {
            return own.iter().map(|target| (at, target.clone())).collect();
        }
        if steps > MAX_STEPS {
            return Vec::new();
        }
        let globs =
            module.globs.iter().filter_map(|glob| self.module(at, glob, steps + STEPS_OF_A_GLOB));
        globs
            .filter(|from| *from != at)
            .flat_map(|from| self.targets(from, name, steps + STEPS_OF_A_GLOB))
            .collect()
    }

    fn definition(&self, module: usize, path: &[String], steps: usize) -> Option<(usize, String)> {
        let (name, before) = path.split_last()?;
        let at = self.module(module, before, steps)?;
        self.targets(at, name, steps).into_iter().find_map(|(owner, target)| match target {
            NameTarget::Item => Some((owner, name.clone())),
            NameTarget::Import(_) if steps > MAX_STEPS => None,
            NameTarget::Import(path) => self.definition(owner, &path, steps + 1),
            NameTarget::Module(_) => None,
        })
    }

    /// The module that a path means, if it means one of this crate.
    fn module(&self, module: usize, path: &[String], steps: usize) -> Option<usize> {
        let mut at = module;
        for name in path {
            at = match name.as_str() {
                "crate" => 0,
                "super" => self.tree.modules[at].parent,
                "self" => at,
                _ if steps > MAX_STEPS => return None,
                name => {
                    let targets = self.targets(at, name, steps);
                    targets.into_iter().find_map(|(owner, target)| match target {
                        NameTarget::Module(child) => Some(child),
                        NameTarget::Import(path) => self.module(owner, &path, steps + 1),
                        NameTarget::Item => None,
                    })?
                }
            };
        }
        Some(at)
    }
}
