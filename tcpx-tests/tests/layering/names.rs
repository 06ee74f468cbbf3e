//! A name says which type: no two that the whole crate may use share one.

use std::collections::BTreeMap;
use std::path::Path;

use super::tree::Tree;

/// Names that a crate may have twice, with the reason. One that it has once must leave the list.
const TWICE: &[(&str, &str, &str)] =
    &[("tcpx-softnet", "Helpers", "a setting and the threads that it asks for; to be renamed")];

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut wrong = String::new();
    for (name, package) in super::workspace() {
        let allowed = || TWICE.iter().filter(|it| it.0 == name).map(|it| it.1);
        let mut shared = BTreeMap::new();
        for tree in super::trees(&package) {
            shared.extend(shared_names(&tree));
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

/// Names of several types, with where each is. Two in one module stand for each other in builds of
/// different kinds.
fn shared_names(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut places = BTreeMap::<&str, BTreeMap<usize, String>>::new();
    for it in &tree.types {
        let file = &tree.files[tree.modules[it.module].file];
        let place = format!("{}:{}", file.display(), it.line);
        places.entry(&it.name).or_default().insert(it.module, place);
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared.map(|(name, places)| (name.to_owned(), places.into_values().collect())).collect()
}

#[test]
fn only_names_that_the_whole_crate_may_use_count() {
    let read = |path: &Path| {
        let text = match path.to_str()? {
            "lib.rs" => {
                "mod a; pub struct One; pub(crate) enum Two {} struct Three; type Four = u8;
                 pub trait Five {} pub fn six() {} #[cfg(test)] pub struct Seven;
                 #[cfg(x)] pub struct Eight; #[cfg(not(x))] pub struct Eight;"
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
    let expected = [("One", ["lib.rs:1", "a.rs:1"]), ("Two", ["lib.rs:1", "a.rs:2"])];
    assert_eq!(
        shared,
        expected.map(|(name, places)| (name.to_owned(), places.map(str::to_owned).to_vec())).into()
    );
}
