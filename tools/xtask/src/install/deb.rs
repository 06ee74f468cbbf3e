//! Packages of a folder with the layout of the installed files.

use std::path::Path;
use std::process::Command;

use super::architecture::Architecture;
use super::error::InstallError;
use super::library::VERSION;
use super::{file, tool};

/// Returns the dependencies of the package: the C library with its oldest version, and others.
pub(super) fn depends(glibc: &str, libraries: &[String]) -> String {
    let unwinding = libraries.iter().any(|name| name == "libgcc_s.so.1");
    format!("libc6 (>= {glibc}){}", if unwinding { ", libgcc-s1" } else { "" })
}

fn control(arch: Architecture, depends: &str, bytes: u64) -> String {
    format!(
        "Package: tcpx\n\
         Version: {VERSION}\n\
         Architecture: {}\n\
         Maintainer: the tcpx authors <tcpx@localhost>\n\
         Installed-Size: {}\n\
         Depends: {depends}\n\
         Section: net\n\
         Priority: optional\n\
         Description: moves GPU memory between hosts over TCP\n\
         \x20The command tcpx measures and tries out transfers of GPU memory and host memory\n\
         \x20between two processes or hosts, over Google's GPUDirect-TCPX plugin or a software\n\
         \x20plugin of its own, and says what is wrong with a machine and how to fix it.\n",
        arch.debian(),
        bytes.div_ceil(1024)
    )
}

/// Packs `tree`, whose root stands for `/`, into `to`. `work` is a folder for intermediate files.
pub(super) fn pack(
    tree: &Path,
    arch: Architecture,
    depends: &str,
    to: &Path,
    work: &Path,
) -> Result<(), InstallError> {
    let parts = work.join("deb");
    let about = parts.join("control");
    file::make_fresh_folder(&about)?;
    file::write(&about.join("control"), &control(arch, depends, size(tree)?))?;
    file::write(&parts.join("debian-binary"), "2.0\n")?;
    archive(&about, ".", &parts.join("control.tar.gz"))?;
    archive(tree, ".", &parts.join("data.tar.gz"))?;
    let packed = parts.join("tcpx.deb");
    // The order is prescribed. `S`: no table of symbols.
    let mut ar = Command::new("ar");
    ar.current_dir(&parts).args(["rcSD", "tcpx.deb"]);
    tool::run(ar.args(["debian-binary", "control.tar.gz", "data.tar.gz"]))?;
    file::copy(&packed, to)
}

/// Packs all of `folder` as `name` into a .tar.gz. Its files are root's and readable by all users,
/// in the order of names, so that the same files make the same archive.
pub(super) fn archive(folder: &Path, name: &str, to: &Path) -> Result<(), InstallError> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--format=gnu", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u+rwX,go+rX,go-w"]);
    if let Some(seconds) = std::env::var_os("SOURCE_DATE_EPOCH") {
        tar.arg(format!("--mtime=@{}", seconds.to_string_lossy()));
    }
    tar.arg(format!("--transform=flags=r;s,^\\.,{name},"));
    tool::run(tar.arg("--file").arg(to).arg("--directory").arg(folder).arg(".")).map(|_| ())
}

/// Returns the bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64, InstallError> {
    let mut bytes = 0;
    for entry in folder.read_dir().map_err(file::at(folder))? {
        let entry = entry.map_err(file::at(folder))?;
        let about = entry.metadata().map_err(file::at(&entry.path()))?;
        bytes += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A tree with one file, packed.
    fn packed(work: &Path) -> std::path::PathBuf {
        let (tree, deb) = (work.join("tree"), work.join("small.deb"));
        file::make_folder(&tree.join("usr/bin")).unwrap();
        file::write(&tree.join("usr/bin/tcpx"), &"x".repeat(3000)).unwrap();
        pack(&tree, Architecture::HOST, &depends("2.28", &["libc.so.6".into()]), &deb, work)
            .unwrap();
        deb
    }

    #[test]
    fn a_package_has_its_three_parts_in_order() {
        let work = tempfile::tempdir().unwrap();
        // The second time over an older one, whose parts do not stay.
        for _ in 0..2 {
            let deb = packed(work.path());
            let parts = tool::run(Command::new("ar").arg("t").arg(&deb)).unwrap();
            assert_eq!(parts, "debian-binary\ncontrol.tar.gz\ndata.tar.gz\n");
        }
    }

    #[test]
    fn dpkg_reads_it() {
        if !tool::works(Command::new("dpkg-deb").arg("--version")) {
            return writeln!(std::io::stderr(), "skipped: there is no dpkg-deb").unwrap();
        }
        let work = tempfile::tempdir().unwrap();
        let deb = packed(work.path());
        let ask = |words: &[&str]| {
            tool::run(Command::new("dpkg-deb").arg(words[0]).arg(&deb).args(&words[1..])).unwrap()
        };
        assert_eq!(ask(&["--field", "Depends"]), "libc6 (>= 2.28)\n");
        assert_eq!(ask(&["--field", "Installed-Size"]), "3\n");
        let contents = ask(&["--contents"]);
        assert!(contents.contains("0/0") && contents.contains(" ./usr/bin/tcpx\n"), "{contents}");
        let to = work.path().join("out");
        ask(&["--extract", to.to_str().unwrap()]);
        assert_eq!(std::fs::read(to.join("usr/bin/tcpx")).unwrap().len(), 3000);
    }

    #[test]
    fn the_unwinding_library_is_a_dependency_unless_it_is_linked_in() {
        let libraries = ["libgcc_s.so.1".to_owned(), "libc.so.6".to_owned()];
        assert_eq!(depends("2.36", &libraries), "libc6 (>= 2.36), libgcc-s1");
    }
}
