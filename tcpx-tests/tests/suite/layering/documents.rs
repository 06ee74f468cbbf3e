//! Documents lead to what is there: their links, and the folders that their commands name.

use std::path::{Path, PathBuf};

use super::comments::files_of;

/// Where the links of a document lead that stay in the tree, and what its commands call a path.
fn targets(text: &str) -> Vec<(PathBuf, bool)> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let links = links.map(|(target, _)| target.split('#').next().unwrap_or_default());
    let links = links.filter(|target| {
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        !target.is_empty() && !is_elsewhere && !target.contains(char::is_whitespace)
    });
    let words: Vec<&str> = text.split_whitespace().collect();
    let paths = words.windows(2).filter(|pair| pair[0] == "--path").map(|pair| pair[1]);
    let paths = paths.map(|path| path.trim_matches('`'));
    let links = links.map(|target| (PathBuf::from(target), false));
    links.chain(paths.map(|target| (PathBuf::from(target), true))).collect()
}

#[test]
fn links_and_paths_of_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate lies in a folder");
    let mut dead = Vec::new();
    let (mut documents_seen, mut targets_seen) = (0, 0);
    for document in files_of(root, "md") {
        let text = std::fs::read_to_string(&document).expect("a document");
        documents_seen += 1;
        let folder = document.parent().unwrap_or(Path::new("."));
        for (target, is_of_command) in targets(&text) {
            targets_seen += 1;
            // Commands are given at the root.
            let from = if is_of_command { root } else { folder };
            if !from.join(&target).exists() {
                dead.push(format!("{}: {}", document.display(), target.display()));
            }
        }
    }
    assert!(documents_seen > 20 && targets_seen > 100, "{documents_seen}, {targets_seen}");
    assert!(dead.is_empty(), "{} lead nowhere:\n{}", dead.len(), dead.join("\n"));
}

#[test]
fn a_broken_link_is_found() {
    let text =
        "[a](docs/a.md#b) [c](https://d) [e](#f)\n    cargo install --path tools/cli --locked";
    let expected = [("docs/a.md", false), ("tools/cli", true)];
    assert_eq!(targets(text), expected.map(|(path, is)| (PathBuf::from(path), is)));
}
