//! Build of the Python package `tcpx`: its native module and the command, in one wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::architecture::Architecture;
use super::error::InstallError;
use super::glibc::Glibc;
use super::library::DebugInfo;
use super::program::{self, PROGRAM};
use super::shared::Linker;
use super::wheel::WheelTree;
use super::{build, file, licenses, needed, tool};

const MODULE: &str = "libtcpx_native.so";
/// Name of the module for all later versions of Python.
const INSTALLED_MODULE: &str = "_native.abi3.so";
const TAG: &str = "cp310-abi3";
const GLIBC: &str = "module that names a version of glibc";

/// Build of the Python package: its folder and options.
pub(crate) struct PythonPackage {
    pub(crate) folder: PathBuf,
    pub(crate) profile: String,
    pub(crate) debug: DebugInfo,
    /// Oldest glibc that it supports; `None` for that of this machine.
    pub(crate) glibc: Option<Glibc>,
    pub(crate) arch: Architecture,
}

impl PythonPackage {
    /// Builds module and command, and packs them. A missing tool is an error before anything is
    /// built.
    pub(crate) fn pack(&self, root: &Path) -> Result<String, InstallError> {
        tool::require(tool::BINUTILS)?;
        tool::require(&["python3"])?;
        let linker = Linker::find(self.glibc, self.arch)?;
        let home = root.join("bindings/python");
        let tree = WheelTree::new(&home.join("METADATA"))?;
        tree.add_entry_points(&home.join("entry_points.txt"))?;
        tree.add_package(&home.join("tcpx"), &["py", "pyi", "typed"])?;

        let words = ["--package", "tcpx-python", "--lib", "--profile", &self.profile];
        let artifacts = program::link(root, &words, &linker)?;
        let module = artifacts.iter().find_map(module).ok_or(InstallError::Missing(MODULE))?;
        // At once: a build beside this one may link it again, for another glibc.
        let module_needs = self.install(&module, &tree.package("tcpx")?.join(INSTALLED_MODULE))?;
        let command = program::build(root, &self.profile, &linker)?;
        let command_needs = self.install(&command.program, &tree.scripts()?.join(PROGRAM))?;
        let newest = module_needs.max(command_needs);
        let mut packages = command.packages;
        packages.extend(artifacts.iter().filter_map(build::package));
        let of = ["tcpx-cli", "tcpx-python"];
        licenses::install_for(root, &of, "the package tcpx", &packages, &tree.licenses())?;
        tree.pack(root, TAG, newest.ok_or(InstallError::Missing(GLIBC))?, self.arch, &self.folder)
    }

    /// Copies what was built into the wheel. Returns the glibc that it needs, if any.
    fn install(&self, from: &Path, to: &Path) -> Result<Option<Glibc>, InstallError> {
        file::copy(from, to)?;
        if self.debug == DebugInfo::Strip {
            tool::run(Command::new(self.arch.tool("strip")).arg("--strip-debug").arg(to))?;
        }
        needed::check(to, self.glibc)
    }
}

fn module(artifact: &Value) -> Option<PathBuf> {
    let files = artifact["filenames"].as_array()?.iter().filter_map(Value::as_str);
    files.map(PathBuf::from).find(|file| file.file_name().is_some_and(|name| name == MODULE))
}
