//! Packages of the command: a .deb, and a .tar.gz for any other system.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::architecture::Architecture;
use super::error::InstallError;
use super::glibc::Glibc;
use super::library::{DebugInfo, VERSION};
use super::program::{self, PROGRAM};
use super::shared::Linker;
use super::{deb, file, licenses, needed, tool};

const GLIBC: &str = "program that names a version of glibc";
/// Paths of completions below `usr`, by shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/tcpx"),
    ("zsh", "share/zsh/vendor-completions/_tcpx"),
    ("fish", "share/fish/vendor_completions.d/tcpx.fish"),
];

/// Packages of the command: their folder and options.
pub(crate) struct CommandPackages {
    pub(crate) folder: PathBuf,
    pub(crate) profile: String,
    pub(crate) debug: DebugInfo,
    /// Oldest glibc that the command supports; `None` for that of this machine.
    pub(crate) glibc: Option<Glibc>,
    pub(crate) arch: Architecture,
}

impl CommandPackages {
    /// Builds the command, installs it in a temporary folder, and packs that. A missing tool is an
    /// error before anything is built.
    pub(crate) fn pack(&self, root: &Path) -> Result<String, InstallError> {
        tool::require(tool::BINUTILS)?;
        for name in ["tar", "gzip"] {
            tool::run(Command::new(name).arg("--version"))?;
        }
        let linker = Linker::find(self.glibc, self.arch)?;
        let work = tempfile::tempdir().map_err(file::at(&std::env::temp_dir()))?;
        let tree = work.path().join("tree");
        let usr = tree.join("usr");

        let built = program::build(root, &self.profile, &linker)?;
        let program = usr.join("bin").join(PROGRAM);
        file::make_folder(&usr.join("bin"))?;
        file::copy(&built.program, &program)?;
        if self.debug == DebugInfo::Strip {
            tool::run(Command::new(self.arch.tool("strip")).arg("--strip-debug").arg(&program))?;
        }
        let needed = needed::check(&program, self.glibc)?.ok_or(InstallError::Missing(GLIBC))?;
        let depends = deb::depends(&needed.to_string(), &program::libraries(&program)?);

        install_manual(self.arch, &program, &usr)?;
        install_completions(self.arch, &program, &usr)?;
        let about = usr.join("share/doc/tcpx");
        licenses::install_for(root, &["tcpx-cli"], PROGRAM, &built.packages, &about)?;
        // Where Debian looks for it.
        file::copy(&root.join("LICENSE"), &about.join("copyright"))?;

        let deb = self.folder.join(format!("tcpx_{VERSION}_{}.deb", self.arch.debian()));
        let name = format!("tcpx-{VERSION}");
        let arch = self.arch.name();
        let archive = self.folder.join(format!("{name}-linux-{arch}.tar.gz"));
        file::make_folder(&self.folder)?;
        deb::pack(&tree, self.arch, &depends, &deb, work.path())?;
        file::clear(&archive)?;
        deb::archive(&usr, &name, &archive)?;
        Ok(format!("{}\n{}\nneeds {depends}", deb.display(), archive.display()))
    }
}

fn install_manual(arch: Architecture, program: &Path, usr: &Path) -> Result<(), InstallError> {
    let pages = usr.join("share/man/man1");
    tool::run(arch.run(program).arg("manual").arg(&pages))?;
    for page in pages.read_dir().map_err(file::at(&pages))? {
        let page = page.map_err(file::at(&pages))?.path();
        tool::run(Command::new("gzip").args(["-9", "--no-name"]).arg(page))?;
    }
    Ok(())
}

fn install_completions(arch: Architecture, program: &Path, usr: &Path) -> Result<(), InstallError> {
    for (shell, place) in COMPLETIONS {
        let path = usr.join(place);
        if let Some(folder) = path.parent() {
            file::make_folder(folder)?;
        }
        let script = tool::run(arch.run(program).args(["completions", shell]))?;
        file::write(&path, &script)?;
    }
    Ok(())
}
