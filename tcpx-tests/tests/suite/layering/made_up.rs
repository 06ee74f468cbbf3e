//! Small made-up crates, to see that edges and cycles are found where they are, and only there.

use std::path::Path;

use super::graph::{Component, components, describe};
use super::resolve::{FileEdges, edges};
use super::tree::Tree;

/// A made-up crate, as pairs of path and text. The first is its root.
fn made_up(files: &[(&str, &str)]) -> (Tree, FileEdges, Vec<Component>) {
    let read = |path: &Path| {
        let (_, text) = files.iter().find(|(name, _)| Path::new(name) == path)?;
        Some((*text).to_owned())
    };
    let tree = Tree::read(Path::new(files[0].0), &read);
    let edges = edges(&tree);
    let components = components(&edges);
    (tree, edges, components)
}

/// The edges of a made-up crate as `from:line to`, in order.
fn edges_of(files: &[(&str, &str)]) -> Vec<String> {
    let (tree, edges, _) = made_up(files);
    let name = |file: usize| tree.files[file].display();
    let line = |((from, to), line): (&(usize, usize), &usize)| {
        format!("{}:{line} {}", name(*from), name(*to))
    };
    let mut lines: Vec<String> = edges.lines.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_cycle_is_found_and_reported_line_by_line() {
    let (tree, edges, components) = made_up(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "\nuse crate::b::B;"),
        ("b.rs", "fn f() { crate::c::g(); }"),
        ("c.rs", "// one\n// two\nfn g(_: crate::a::A) {}"),
    ]);
    assert_eq!(components.len(), 1);
    assert_eq!(
        describe(&tree, &edges, &components[0]),
        "3 files lead to each other:\n  a.rs:2 → b.rs:1 → c.rs:3 → a.rs\n"
    );
}

#[test]
fn two_cycles_that_share_a_file_are_both_reported() {
    let (_, _, components) = made_up(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::{a::A, c::C};"),
        ("c.rs", "use crate::b::B;"),
    ]);
    assert_eq!(components.len(), 1);
    assert_eq!(components[0].files.len(), 3);
    assert_eq!(components[0].cycles.len(), 2);
}

#[test]
fn super_and_self_lead_to_files() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; mod c;\nuse self::c::C; struct A;"),
        ("a/b.rs", "use super::A;"),
        ("a/c.rs", "mod d; fn f() { super::b::g() }"),
        ("a/c/d.rs", "use super::super::b as other; fn f() { other::g() }"),
    ];
    assert_eq!(
        edges_of(&files),
        ["a.rs:2 a/c.rs", "a/b.rs:1 a.rs", "a/c.rs:1 a/b.rs", "a/c/d.rs:1 a/b.rs",]
    );
    assert_eq!(made_up(&files).2.len(), 1, "a, c, b and a again");
}

#[test]
fn mod_lines_alone_are_no_edges() {
    assert!(
        edges_of(&[("lib.rs", "pub mod a;"), ("a/mod.rs", "mod b;"), ("a/b.rs", "")]).is_empty()
    );
}

#[test]
fn code_for_tests_makes_no_edges() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B;"),
        (
            "b.rs",
            "#[cfg(test)] mod tests { use crate::a::A; }
             #[cfg(test)] mod not_there;
             #[cfg(all(test, feature = \"x\"))] use crate::a::A;
             #[test] fn t() { crate::a::f() }
             struct S { #[cfg(test)] field: crate::a::A }
             impl S { #[cfg(any(test))] fn f() { crate::a::f() } }
             fn g() { #[cfg(test)] let x = crate::a::f(); }",
        ),
    ];
    assert_eq!(edges_of(&files), ["a.rs:1 b.rs"]);
}

#[test]
fn code_that_a_product_may_have_makes_edges() {
    for condition in ["not(test)", "any(test, feature = \"x\")", "feature = \"x\""] {
        let text = format!("#[cfg({condition})] use crate::a::A;");
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b.rs", &text)];
        assert_eq!(edges_of(&files), ["b.rs:1 a.rs"], "{condition}");
    }
}

#[test]
fn a_re_export_is_its_maps() {
    let room = [
        ("lib.rs", "mod room; mod user;"),
        ("room.rs", "mod a; mod b;\npub(crate) use a::{A, f}; pub(crate) use b::inner;"),
        ("room/a.rs", "struct A; fn f() {}"),
        ("room/b.rs", "pub(crate) mod inner { fn g() {} }"),
    ];
    let with = |user: &'static str| edges_of(&[&room[..], &[("user.rs", user)]].concat());
    let of_the_room = ["room.rs:2 room/a.rs", "room.rs:2 room/b.rs"].map(str::to_owned);
    let plus = |more: &[&str]| {
        [&of_the_room[..], &more.iter().map(ToString::to_string).collect::<Vec<_>>()].concat()
    };
    assert_eq!(with("use crate::room::A;"), plus(&["user.rs:1 room.rs"]));
    assert_eq!(with("use crate::room; fn h() { room::f() }"), plus(&["user.rs:1 room.rs"]));
    assert_eq!(with("use crate::room::*; fn h() { f() }"), plus(&["user.rs:1 room.rs"]));
    assert_eq!(with("use crate::room::a::A;"), plus(&["user.rs:1 room/a.rs"]));
    // A module that a map shows: both the map and what the path ends in.
    assert_eq!(
        with("fn h() { crate::room::inner::g() }"),
        plus(&["user.rs:1 room.rs", "user.rs:1 room/b.rs"])
    );
}

#[test]
fn files_of_a_room_that_meet_through_their_map_make_a_cycle() {
    let (_, _, components) = made_up(&[
        ("lib.rs", "mod room;"),
        ("room.rs", "mod a; mod b; pub(crate) use a::A;"),
        ("room/a.rs", "use super::b::B;"),
        ("room/b.rs", "use super::A;"),
    ]);
    assert_eq!(components.iter().map(|component| component.files.len()).collect::<Vec<_>>(), [3]);
}

#[test]
fn paths_in_macros_and_macros_themselves_make_edges() {
    let files = [
        ("lib.rs", "#[macro_use] mod log; mod a; mod b; mod c; mod d;"),
        ("log.rs", "macro_rules! say { ($x:expr) => { $crate::d::print($x) } }"),
        ("a.rs", "fn f() { say!(1) }"),
        ("b.rs", "fn f() { assert!(matches!(g(), crate::c::C::D { .. })) }"),
        ("c.rs", "fn f() { vec![::a::b(), x.y::<crate::d::D>()] }"),
        ("d.rs", ""),
    ];
    assert_eq!(edges_of(&files), ["a.rs:1 log.rs", "b.rs:1 c.rs", "c.rs:1 d.rs", "log.rs:1 d.rs"]);
}

#[test]
fn other_crates_and_local_names_make_no_edges() {
    let (_, edges, _) = made_up(&[
        ("lib.rs", "mod a; mod fmt;"),
        (
            "a.rs",
            "use std::fmt; use ::fmt::X; use other::{self, fmt::Y};
             pub(super) struct S;
             impl fmt::Debug for S { fn f<T: Z>() -> T::fmt { Self::f(); other::g() } }",
        ),
        ("fmt.rs", ""),
    ]);
    assert!(edges.lines.is_empty(), "{edges:?}");
    assert!(edges.foreign.contains("std") && edges.foreign.contains("other"));
}

#[test]
fn a_module_and_a_function_of_one_name_are_distinguished() {
    let files = [
        ("lib.rs", "mod walk;\npub use walk::walk; mod a;"),
        ("walk.rs", ""),
        ("a.rs", "use crate::walk::Step; fn f() { crate::walk() }"),
    ];
    assert_eq!(edges_of(&files), ["a.rs:1 walk.rs", "lib.rs:2 walk.rs"]);
}
