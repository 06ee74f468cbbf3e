//! Sections that checks and comments of this crate cite: each is a heading of the plugin contract.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tcpx_conformance::{CONTRACT, checks};

/// Returns the sections that `text` cites: `§` and numbers with dots between them.
fn cited(text: &str) -> BTreeSet<String> {
    let number = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].trim_end_matches('.').to_owned()
    };
    text.split('§').skip(1).map(number).filter(|number| !number.is_empty()).collect()
}

/// Returns the sections that the contract has, by their headings.
fn headings() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(CONTRACT);
    let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    page.lines().filter(|line| line.starts_with('#')).flat_map(cited).collect()
}

/// Returns all Rust files below `folder`.
fn sources(folder: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    folders.into_iter().flat_map(sources).chain(files).collect()
}

#[test]
fn checks_cite_sections_that_exist() {
    let headings = headings();
    assert!(headings.len() > 30, "{headings:?}");
    for check in checks() {
        let cites = cited(check.section);
        assert!(!cites.is_empty(), "{check:?} cites nothing");
        assert!(cites.is_subset(&headings), "{check:?}: {CONTRACT} has no such heading");
    }
}

#[test]
fn comments_cite_sections_that_exist_and_say_where() {
    let headings = headings();
    let mut files = 0;
    for path in sources(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let cites = cited(&text);
        if cites.is_empty() {
            continue;
        }
        files += 1;
        let unknown: Vec<_> = cites.difference(&headings).collect();
        assert!(unknown.is_empty(), "{}: {CONTRACT} has no {unknown:?}", path.display());
        let head: String = text.lines().filter(|line| line.starts_with("//!")).collect();
        assert!(head.contains(CONTRACT), "the head of {} does not name it", path.display());
    }
    assert!(files > 0, "nothing was looked at");
}
