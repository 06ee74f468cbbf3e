//! Cycles of files within one type. An `impl` block calls a method that another file defines for
//! the same type, and that file calls back, if by way of others. No path says so, and `cycles`
//! sees nothing.
//!
//! There is none. A change that adds one fails, and the failure lists the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::graph::{Component, components};
use super::resolve::{FileEdges, definition};
use super::syntax::Method;
use super::tree::Tree;

#[test]
fn files_of_a_type_call_each_other_in_no_cycle() {
    let mut found = String::new();
    for (name, package) in super::workspace() {
        for cycle in super::trees(package).iter().flat_map(cycles) {
            found += &format!("\n{name}: {cycle}");
        }
    }
    assert!(found.is_empty(), "{found}");
}

/// Files of one type that all call each other: which they are, with one call for each that another
/// calls.
fn cycles(tree: &Tree) -> Vec<String> {
    let mut cycles = Vec::new();
    for ((_, of), calls) in calls(tree) {
        let lines = calls.iter().map(|(files, call)| (*files, call.line)).collect();
        for component in components(&FileEdges { lines, ..FileEdges::default() }) {
            cycles.push(describe(tree, &of, &component, &calls));
        }
    }
    cycles
}

/// From which file to which the blocks of one type call, with the first such call.
type Calls<'a> = BTreeMap<(usize, usize), &'a Method>;

/// The calls of all types. A method that a file defines itself leads nowhere, and so does one that
/// no block of the type defines: it is a trait's, or another type's by `Deref`.
fn calls(tree: &Tree) -> BTreeMap<(usize, String), Calls<'_>> {
    let file = |method: &Method| tree.modules[method.module].file;
    let mut defined = BTreeMap::<((usize, String), &str), BTreeSet<usize>>::new();
    for method in &tree.methods {
        defined.entry((type_of(tree, method), &method.name)).or_default().insert(file(method));
    }
    let mut types = BTreeMap::<(usize, String), Calls<'_>>::new();
    for call in &tree.calls {
        let (of, from) = (type_of(tree, call), file(call));
        let Some(files) = defined.get(&(of.clone(), &call.name)) else { continue };
        if files.contains(&from) {
            continue;
        }
        for to in files {
            let first = types.entry(of.clone()).or_default().entry((from, *to)).or_insert(call);
            if call.line < first.line {
                *first = call;
            }
        }
    }
    types
}

/// The module that defines the type of a block, and its name there. One that a function or a macro
/// defines counts as the block's module's.
fn type_of(tree: &Tree, method: &Method) -> (usize, String) {
    definition(tree, method.module, &method.of)
        .unwrap_or_else(|| (method.module, method.of.join("::")))
}

fn describe(tree: &Tree, of: &str, component: &Component, calls: &Calls<'_>) -> String {
    let name = |file: &usize| tree.files[*file].display();
    let mut text = format!("{} files of {of} call each other:\n", component.files.len());
    for from in &component.files {
        text += &format!("  {}\n", name(from));
        for to in &component.files {
            if let Some(call) = calls.get(&(*from, *to)) {
                text += &format!("    line {}: {}() → {}\n", call.line, call.name, name(to));
            }
        }
    }
    text
}

/// The cycles of a made-up crate: its root with two modules, and a type that both have a block of.
fn cycles_of(one: &str, other: &str) -> Vec<String> {
    let read = |path: &Path| {
        let text = match path.to_str()? {
            "lib.rs" => "mod one; mod other; pub(crate) struct Thing { part: Part } struct Part;",
            "one.rs" => one,
            "other.rs" => other,
            _ => return None,
        };
        Some(text.to_owned())
    };
    cycles(&Tree::read(Path::new("lib.rs"), &read))
}

const BACK: &str = "use super::Thing;\nimpl Thing { fn back(&self) { self.go() } }";

fn and_back(go: &str) -> Vec<String> {
    cycles_of(&format!("use crate::Thing;\nimpl Thing {{ fn go(&self) {{ {go} }} }}"), BACK)
}

#[test]
fn calls_of_a_types_own_methods_make_cycles() {
    let told = "2 files of Thing call each other:
  one.rs
    line 2: back() → other.rs
  other.rs
    line 2: go() → one.rs\n";
    for go in [
        "self.back()",
        "(&*self).back()",
        "self.back::<u8>().more()",
        "Self::back(self)",
        "Thing::back(self)",
        "crate::Thing::back(self)",
        "Some(self).map(Self::back)",
        "call(|| self.part.each(|_| self.back()))",
        "assert!(matches!(self.back(), 1), \"{}\", 2)",
        "debug!(a = %1, b = ?[Self::back(self)])",
        "assert!(self.back::<u8>())",
        "if x { loop { return f(self.back()) } }",
    ] {
        assert_eq!(and_back(go), [told], "{go}");
    }
}

#[test]
fn calls_of_others_make_none() {
    for go in [
        "self.part.back()",
        "self.part().back()",
        "other.back()",
        "(self.back)(1)",
        "self.back = 1",
        "Part::back(self)",
        "assert!(self.part.back())",
        "assert!(self.back)",
        "#[cfg(test)] let x = self.back();",
        "struct Part; impl Part { fn f(&self) { self.back(); Self::back() } }",
        "trait Go { fn f(&self) { self.back() } }",
        "self.go()",
    ] {
        assert!(and_back(go).is_empty(), "{go}");
    }
}

#[test]
fn blocks_of_one_type_only_are_a_cycle() {
    let with = |one: &str| cycles_of(one, BACK).len();
    assert_eq!(with("use super::*; impl Thing { fn go(&self) { self.back() } }"), 1);
    assert_eq!(with("use super::Thing as It; impl It { fn go(&self) { self.back() } }"), 1);
    assert_eq!(with("impl<T> crate::Thing { fn go(&self) { self.back() } }"), 1);
    // Another type of the same name, that only its module knows.
    assert_eq!(with("struct Thing; impl Thing { fn go(&self) { self.back() } }"), 0);
    // Blocks of traits call, and what they define is the trait's.
    let go = "use super::Thing; impl Thing { fn go(&self) {} }";
    assert_eq!(
        with(&format!("{go} impl Drop for Thing {{ fn drop(&mut self) {{ self.back() }} }}")),
        1
    );
    assert_eq!(with("use super::Thing; impl Go for Thing { fn go(&self) { self.back() } }"), 0);
    // Each has its own, by another condition.
    assert_eq!(
        with(&format!("{go} impl Thing {{ fn back(&self) {{}} fn f(&self) {{ self.back() }} }}")),
        0
    );
}

#[test]
fn blocks_for_tests_are_no_part_of_a_cycle() {
    for go in [
        "#[cfg(test)] impl Thing { fn go(&self) { self.back() } }",
        "impl Thing { #[cfg(test)] fn go(&self) { self.back() } }",
        "impl Thing { fn go(&self) {} #[cfg(test)] fn f(&self) { self.back() } }",
        "impl Thing { fn go(&self) {} } #[cfg(test)] mod tests { fn f() { Thing::back() } }",
    ] {
        assert!(cycles_of(&format!("use super::Thing; {go}"), BACK).is_empty(), "{go}");
    }
}
