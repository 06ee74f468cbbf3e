//! Folder of the libraries below the prefix.

use std::fmt::{Display, Formatter};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// A folder below the prefix: `lib`, `lib64`, `lib/x86_64-linux-gnu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LibraryFolder(String);

impl LibraryFolder {
    pub(super) fn under(&self, prefix: &Path) -> PathBuf {
        prefix.join(&self.0)
    }

    /// Returns the relative path from a folder `depth` below this one to the prefix.
    pub(super) fn back_to_prefix(&self, depth: usize) -> String {
        vec![".."; depth + self.0.split('/').count()].join("/")
    }
}

impl Display for LibraryFolder {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for LibraryFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        for component in Path::new(text).components() {
            match component {
                Component::Normal(part) => parts.push(part.to_string_lossy()),
                _ => {
                    return Err(format!(
                        "{text:?} is not a folder below the prefix, such as lib64"
                    ));
                }
            }
        }
        match parts.is_empty() {
            true => Err("it is empty".to_owned()),
            false => Ok(Self(parts.join("/"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_folder_lies_below_the_prefix() {
        let folder: LibraryFolder = "lib//x86_64-linux-gnu/".parse().unwrap();
        assert_eq!(folder.to_string(), "lib/x86_64-linux-gnu");
        assert_eq!(folder.under(Path::new("/usr")), Path::new("/usr/lib/x86_64-linux-gnu"));
        assert_eq!(folder.back_to_prefix(2), "../../../..");
        for wrong in ["", "/usr/lib", "../lib", "lib/../..", "./lib"] {
            assert!(wrong.parse::<LibraryFolder>().is_err(), "{wrong}");
        }
    }
}
