//! Libraries of this system that a backend would load, which are read and not loaded.

use std::path::{Path, PathBuf};

use object::Endianness;
use object::read::elf::ElfFile64;
use tcpx_diagnosis::variables::value;
use tcpx_diagnosis::{Host, Tree};

use super::backend_file;
use super::symbol_versions::{RequiredVersion, defined};

/// Default folders of the loader, on Debian, on Red Hat, and elsewhere.
#[cfg(target_arch = "aarch64")]
const FOLDERS: [&str; 4] =
    ["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64"];
#[cfg(not(target_arch = "aarch64"))]
const FOLDERS: [&str; 4] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];

/// Returns, as a text, the newest version that a file requires and the library here lacks.
/// Libraries that are not found are left out.
pub(super) fn missing(host: &Host<'_>, requires: &[RequiredVersion]) -> Option<String> {
    let tree = host.tree();
    let mut libraries: Vec<&str> = requires.iter().map(|it| it.library.as_str()).collect();
    libraries.dedup();
    libraries.iter().find_map(|library| {
        let (path, has) = find(host, &tree, library)?;
        let missing = requires.iter().filter(|it| it.library == **library);
        let missing = missing.filter(|it| !has.contains(&it.version));
        let newest = missing.max_by_key(|it| numbers(&it.version))?;
        Some(format!("needs {}, which {} does not have", newest.version, path.display()))
    })
}

/// Returns the library that a process of this environment would load, and the versions in it.
fn find(host: &Host<'_>, tree: &Tree<'_>, library: &str) -> Option<(PathBuf, Vec<String>)> {
    // A path is no name of a library.
    if library.contains('/') {
        return None;
    }
    let list = value(host.env, "LD_LIBRARY_PATH").unwrap_or_default();
    let named = list.split(':').filter(|path| path.starts_with('/')).map(PathBuf::from);
    // A Python of conda brings its own libstdc++.
    let conda = value(host.env, "CONDA_PREFIX").map(|prefix| Path::new(prefix).join("lib"));
    let folders = named.chain(conda).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(library)).find_map(|path| {
        let bytes = backend_file::bytes(&tree.path(&path)).ok()?;
        let file = ElfFile64::<'_, Endianness>::parse(&*bytes).ok()?;
        let versions = defined(&file);
        // A file without versions is another library.
        (!versions.is_empty()).then_some((path, versions))
    })
}

/// Returns the numbers in a version, so that 2.9 comes before 2.28.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|it| it.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(numbers("GLIBC_2.9") < numbers("GLIBC_2.28"));
        assert!(numbers("GLIBC_2.28") < numbers("GLIBC_2.28.1"));
        assert_eq!(numbers("GLIBC_ABI_DT_RELR"), []);
    }
}
