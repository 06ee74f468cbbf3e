//! Files of one machine below a root directory, so that a test's tree reads like the real one.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest file that is read, in bytes; the kernel's own files are far shorter.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// File system seen from `root`; absolute paths given to it start there.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    root: &'a Path,
}

impl<'a> Tree<'a> {
    /// Creates the view of the file system that starts at `root`.
    #[must_use]
    pub fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Returns the place of `path` for this process. A relative path is left to the current
    /// directory.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        match path.strip_prefix("/") {
            Ok(below) => self.root.join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// Returns `path` with its links resolved, as seen from the root.
    ///
    /// # Errors
    /// Returns an error when there is nothing at `path`, or the way to it may not be read.
    pub fn canonical(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let real = fs::canonicalize(self.path(path))?;
        let root = fs::canonicalize(self.root)?;
        Ok(match real.strip_prefix(&root) {
            Ok(below) => Path::new("/").join(below),
            Err(_) => real,
        })
    }

    /// Returns whether there is something at `path`, links followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// Returns the file's text, at most 1 MiB; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Returns an error when the file cannot be opened or read.
    pub fn text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut bytes = Vec::new();
        fs::File::open(self.path(path))?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the file's text without surrounding white space, if it can be read and is not empty.
    pub fn word(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path).ok()?;
        let word = text.trim();
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// Returns the first whitespace-separated number of the file.
    pub fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.numbers(path).first().copied()
    }

    /// Returns all whitespace-separated numbers up to the first word that is not a number.
    pub fn numbers(&self, path: impl AsRef<Path>) -> Vec<i64> {
        let text = self.text(path).unwrap_or_default();
        text.split_whitespace().map_while(|word| word.parse().ok()).collect()
    }

    /// Returns the names in a directory, sorted; none if the directory cannot be read.
    pub fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(directory)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}
