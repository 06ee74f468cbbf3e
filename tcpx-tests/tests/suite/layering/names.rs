//! A name says which type: no two that the whole crate may use share one.

use std::collections::BTreeMap;
use std::path::Path;

use super::tree::{NameTarget, Tree};

/// Names that a crate may have twice, with the reason. One that it has once must leave the list.
const TWICE: &[(&str, &str, &str)] = &[];

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut wrong = String::new();
    for (name, package) in super::workspace() {
        let allowed = || TWICE.iter().filter(|it| it.0 == name).map(|it| it.1);
        let mut shared = BTreeMap::new();
        for tree in super::trees(package) {
            shared.extend(shared_names(tree));
        }
        for stale in allowed().filter(|stale| !shared.contains_key(*stale)) {
            wrong += &format!("{name} has one {stale} at most: take it off the list\n");
        }
        for (it, places) in shared.iter().filter(|(it, _)| !allowed().any(|other| other == *it)) {
            wrong += &format!("{name}: {it} in {}\n", places.join(", "));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Names of several types, with where each is. Those that stand for each other in builds of
/// different kinds count once.
fn shared_names(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut places = BTreeMap::<&str, Vec<(usize, String)>>::new();
    for it in &tree.types {
        let file = &tree.files[tree.modules[it.module].file];
        let others = places.entry(&it.name).or_default();
        if !others.iter().any(|(module, _)| are_alternatives(tree, *module, it.module)) {
            others.push((it.module, format!("{}:{}", file.display(), it.line)));
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    let names = shared.map(|(name, places)| {
        (name.to_owned(), places.into_iter().map(|(_, place)| place).collect())
    });
    names.collect()
}

/// Whether two modules are never there together: they are one module, whose types stand for each
/// other, or lie in two modules of one name.
fn are_alternatives(tree: &Tree, left: usize, right: usize) -> bool {
    let above = |module: usize| {
        std::iter::successors(Some(module), |at| (*at != 0).then(|| tree.modules[*at].parent))
    };
    let share_a_name = |one: usize, other: usize| {
        let means = |targets: &[NameTarget], module: usize| {
            targets.iter().any(|it| matches!(it, NameTarget::Module(found) if *found == module))
        };
        let names = &tree.modules[tree.modules[one].parent].names;
        one != other && names.values().any(|it| means(it, one) && means(it, other))
    };
    left == right || above(left).any(|one| above(right).any(|other| share_a_name(one, other)))
}

#[test]
fn only_names_that_the_whole_crate_may_use_count() {
    let read = |path: &Path| {
        let text = match path.to_str()? {
            "lib.rs" => {
                "mod a; pub struct One; pub(crate) enum Two {} struct Three; type Four = u8;
                 pub trait Five {} pub fn six() {} #[cfg(test)] pub struct Seven;
                 #[cfg(x)] pub struct Eight; #[cfg(not(x))] pub struct Eight;
                 #[cfg(x)] mod c { mod d { pub struct Nine; } }
                 #[cfg(not(x))] mod c { pub struct Nine; }"
            }
            "a.rs" => {
                "pub(crate) type One = u8;\nmod b { pub union Two {} } pub struct Three;
                 pub(super) struct Four; pub struct Six; pub struct Seven;
                 impl super::Five for Six { type One = u8; } fn f() { pub struct Five; }"
            }
            _ => return None,
        };
        Some(text.to_owned())
    };
    let shared = shared_names(&Tree::read(Path::new("lib.rs"), &read));
    let expected = [("One", ["a.rs:1", "lib.rs:1"]), ("Two", ["a.rs:2", "lib.rs:1"])];
    assert_eq!(
        shared,
        expected.map(|(name, places)| (name.to_owned(), places.map(str::to_owned).to_vec())).into()
    );
}
