//! Licence texts: tcpx's, and those of all packages whose code is in the libraries.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::InstallError;
use super::{build, file, tool};

const RUST_NOTICES: &str = "COPYRIGHT-library.html";

/// Writes the licences of the C library to `to`, which has no other files. `packages` has the
/// folder of each package.
pub(super) fn install(
    root: &Path,
    packages: &BTreeMap<String, PathBuf>,
    to: &Path,
) -> Result<(), InstallError> {
    install_for(root, &["tcpx-capi"], "libtcpx_p2p", packages, to)
}

/// Writes the licences of `name`, which the crates `of` build.
pub(super) fn install_for(
    root: &Path,
    of: &[&str],
    name: &str,
    packages: &BTreeMap<String, PathBuf>,
    to: &Path,
) -> Result<(), InstallError> {
    file::make_fresh_folder(to)?;
    file::copy(&root.join("LICENSE"), &to.join("LICENSE"))?;
    let mut list = format!("Packages in {name} besides tcpx's own code, with their licences.\n\n");
    list += &rust(root, to)?;
    let mut tree = build::cargo(root);
    tree.arg("tree").args(of.iter().flat_map(|name| ["--package", name]));
    tree.args(["--edges", "normal,no-proc-macro"]);
    let tree = tool::run(tree.args(["--prefix", "none", "--format", "{p}|{l}"]))?;
    for (package, license) in linked(&tree) {
        // A package without a folder is a crate of this workspace: `deny.toml` allows others from a
        // registry only.
        let Some(from) = packages.get(&package) else { continue };
        let folder = to.join(package.replace(' ', "-"));
        copy_texts(&package, from, &folder)?;
        list += &format!("{package}: {license}\n");
    }
    file::write(&to.join("THIRD-PARTY"), &list)
}

/// Copies the notices of the standard library, where the toolchain has them.
fn rust(root: &Path, to: &Path) -> Result<String, InstallError> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let sysroot = tool::run(rustc.current_dir(root).args(["--print", "sysroot"]))?;
    let notices = Path::new(sysroot.trim_end()).join("share/doc/rust").join(RUST_NOTICES);
    if notices.exists() {
        let folder = to.join("rust");
        file::make_folder(&folder)?;
        file::copy(&notices, &folder.join(RUST_NOTICES))?;
    }
    Ok("Rust's standard library: MIT OR Apache-2.0, parts others; see \
        https://www.rust-lang.org/policies/licenses\n"
        .to_owned())
}

/// Copies all files of a package that look like licences or notices.
fn copy_texts(package: &str, from: &Path, to: &Path) -> Result<(), InstallError> {
    file::make_folder(to)?;
    let mut found = false;
    for entry in from.read_dir().map_err(file::at(from))? {
        let entry = entry.map_err(file::at(from))?;
        if is_text_of_license(&entry.file_name()) {
            file::copy(&entry.path(), &to.join(entry.file_name()))?;
            found = true;
        }
    }
    if found { Ok(()) } else { Err(InstallError::NoLicense(package.to_owned())) }
}

fn is_text_of_license(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let starts = ["LICENSE", "LICENCE", "UNLICENSE", "COPYING", "COPYRIGHT", "NOTICE"];
    starts.iter().any(|start| name.starts_with(start))
}

/// Returns packages, as "name version", with their licences, from the lines `name vversion|…` of
/// `cargo tree`. A repeated one ends with `(*)`.
fn linked(tree: &str) -> BTreeMap<String, String> {
    let package = |line: &str| {
        let (package, license) = line.split_once('|')?;
        let mut words = package.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let license = license.trim_end_matches(" (*)");
        Some((format!("{name} {version}"), license.to_owned()))
    };
    tree.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_in_cargos_tree() {
        let tree = "tcpx-core v0.1.0 (/w/tcpx-core)|Apache-2.0\n\
                    sha2 v0.11.1|MIT OR Apache-2.0\n\
                    sha2 v0.11.1|MIT OR Apache-2.0 (*)\n";
        let found: Vec<_> = linked(tree).into_iter().collect();
        let wanted = [("sha2 0.11.1", "MIT OR Apache-2.0"), ("tcpx-core 0.1.0", "Apache-2.0")];
        assert_eq!(found, wanted.map(|(name, license)| (name.to_owned(), license.to_owned())));
    }

    #[test]
    fn a_package_without_a_text_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("README.md"), "MIT").unwrap();
        let refused = copy_texts("bare 1.0.0", from.path(), to.path()).unwrap_err();
        assert!(refused.to_string().contains("bare 1.0.0"), "{refused}");
        std::fs::write(from.path().join("license-mit"), "words").unwrap();
        copy_texts("bare 1.0.0", from.path(), to.path()).unwrap();
        assert_eq!(std::fs::read_to_string(to.path().join("license-mit")).unwrap(), "words");
    }
}
