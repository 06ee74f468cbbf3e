//! Comments are no wider than code, for which rustfmt sees.

use std::path::{Path, PathBuf};

/// Columns of a line, in characters: `max_width` of rustfmt.toml.
const WIDTH: usize = 100;

#[test]
fn no_comment_is_wider_than_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate lies in a folder");
    let mut wide = Vec::new();
    for file in sources(root) {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        wide.extend(too_wide(&text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(wide.is_empty(), "{} lines:\n{}", wide.len(), wide.join("\n"));
}

/// All Rust files below a folder, but for what cargo builds.
pub(super) fn sources(folder: &Path) -> Vec<PathBuf> {
    files_of(folder, "rs")
}

/// Returns all files below a folder whose names end in `wanted`, except build outputs of cargo.
pub(super) fn files_of(folder: &Path, wanted: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry of a folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_symlink() || name.starts_with('.') || name == "target" {
        } else if path.is_dir() {
            files.extend(files_of(&path, wanted));
        } else if path.extension().is_some_and(|extension| extension == wanted) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Numbers of the lines that are too wide and have a comment, from 1.
fn too_wide(text: &str) -> Vec<usize> {
    let is_wide = |line: &str| line.chars().count() > WIDTH && has_comment(line);
    text.lines().zip(1..).filter(|(line, _)| is_wide(line)).map(|(_, number)| number).collect()
}

/// Whether a line is a comment or ends with one. A `//` in a string is none.
fn has_comment(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with("/*") || line.starts_with("* ") {
        return true;
    }
    let mut is_in_string = false;
    let mut before = ' ';
    for now in line.chars() {
        match (before, now) {
            ('\\', '"') if is_in_string => {}
            ('\'', '"') if !is_in_string => {}
            (_, '"') => is_in_string = !is_in_string,
            ('/', '/') if !is_in_string => return true,
            _ => {}
        }
        before = now;
    }
    false
}

#[test]
fn comments_are_distinguished_from_code() {
    let wide = "x".repeat(WIDTH);
    for comment in
        [format!("// {wide}"), format!("    //! {wide}"), format!("f('\"', \"a\"); // {wide}")]
    {
        assert_eq!(too_wide(&format!("fn f() {{}}\n{comment}\n")), [2], "{comment}");
    }
    for code in
        [format!("let x = \"https://{wide}\";"), format!("let {wide} = 1;"), "// short".into()]
    {
        assert!(too_wide(&code).is_empty(), "{code}");
    }
    assert!(too_wide(&format!("// {}", "é".repeat(WIDTH - 3))).is_empty(), "columns, not bytes");
}
