//! Build of the backend for NIXL: one file, with all of tcpx in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::architecture::Architecture;
use super::error::InstallError;
use super::glibc::Glibc;
use super::library::{DebugInfo, VERSION};
use super::shared::Linker;
use super::wheel::WheelTree;
use super::{build, file, licenses, needed, tool};

const PLUGIN: &str = "libplugin_TCPX.so";
const PACKAGE: &str = "nixl_tcpx";
const GLIBC: &str = "plugin that names a version of glibc";

/// Build of the backend: its folder and options.
pub(crate) struct NixlBackend {
    /// Folder in which NIXL looks for backends.
    pub(crate) folder: PathBuf,
    pub(crate) profile: String,
    pub(crate) debug: DebugInfo,
    /// Oldest glibc that it supports; `None` for that of this machine.
    pub(crate) glibc: Option<Glibc>,
    pub(crate) arch: Architecture,
}

impl NixlBackend {
    /// Builds the plugin and installs it with its licences.
    pub(crate) fn build(&self, root: &Path) -> Result<String, InstallError> {
        let needed = needed::words(self.install_plugin(root, &self.folder.join("licenses"))?);
        Ok(format!("{PLUGIN} {VERSION} is in {}{needed}", self.folder.display()))
    }

    /// Builds the plugin, and packs it into a wheel in its folder.
    pub(crate) fn pack(mut self, root: &Path) -> Result<String, InstallError> {
        tool::require(&["python3"])?;
        let home = root.join("bindings/nixl/python");
        let tree = WheelTree::new(&home.join("METADATA"))?;
        tree.add_package(&home.join(PACKAGE), &["py"])?;
        let out = std::mem::replace(&mut self.folder, tree.package(PACKAGE)?);
        let needed =
            self.install_plugin(root, &tree.licenses())?.ok_or(InstallError::Missing(GLIBC))?;
        tree.pack(root, "py3-none", needed, self.arch, &out)
    }

    /// Builds and installs the plugin, and returns the glibc that it needs. A missing tool is an
    /// error before anything is built.
    fn install_plugin(&self, root: &Path, licenses: &Path) -> Result<Option<Glibc>, InstallError> {
        tool::require(tool::BINUTILS)?;
        tool::require(&["cmake", &self.arch.tool("c++"), &self.arch.tool("strip")])?;
        let linker = Linker::find(self.glibc, self.arch)?;
        let work = tempfile::tempdir().map_err(file::at(&std::env::temp_dir()))?;
        let built = build::build(root, &self.profile, self.arch)?;
        let plugin = work.path().join(PLUGIN);
        compile(root, &linker, &built.archive, work.path())?;
        if self.debug == DebugInfo::Strip {
            tool::run(Command::new(self.arch.tool("strip")).arg("--strip-debug").arg(&plugin))?;
        }
        let needed = needed::check(&plugin, self.glibc)?;
        file::make_folder(&self.folder)?;
        file::copy(&plugin, &self.folder.join(PLUGIN))?;
        licenses::install(root, &built.packages, licenses)?;
        Ok(needed)
    }
}

/// Has CMake build the plugin in `work`.
fn compile(root: &Path, linker: &Linker, archive: &Path, work: &Path) -> Result<(), InstallError> {
    let define = |name: &str, value: &str| format!("-D{name}={value}");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root.join("bindings/nixl")).arg("-B").arg(work);
    configure.args(linker.architecture().cmake_words());
    configure.arg(define("CMAKE_BUILD_TYPE", "Release"));
    configure.arg(define("TCPX_ARCHIVE", &archive.to_string_lossy()));
    configure.arg(define("TCPX_INCLUDE", &root.join("include").to_string_lossy()));
    if let Some(words) = linker.words() {
        // The compiler's own libraries by their files: zig would take others.
        let libraries = ["libstdc++.so.6", "libgcc_s.so.1"]
            .map(|name| library_of_compiler(linker.architecture(), name));
        let [standard, unwinding] = libraries;
        let rule = format!(
            "{} -shared <LINK_FLAGS> -o <TARGET> <OBJECTS> <LINK_LIBRARIES> {}",
            words.join(" "),
            standard?
        );
        configure.arg(define("CMAKE_CXX_CREATE_SHARED_MODULE", &rule));
        configure.arg(define("TCPX_UNWINDING", &unwinding?));
    }
    tool::run(&mut configure)?;
    tool::run(Command::new("cmake").arg("--build").arg(work)).map(|_| ())
}

/// Returns the path at which the C++ compiler keeps a library.
fn library_of_compiler(arch: Architecture, name: &str) -> Result<String, InstallError> {
    let mut compiler = Command::new(arch.tool("c++"));
    let found = tool::run(compiler.arg(format!("-print-file-name={name}")))?;
    Ok(found.trim_end().to_owned())
}
