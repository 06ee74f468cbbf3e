//! Installation of the C library, with files for pkg-config and CMake. Packages of the backend for
//! NIXL, of the command, and for Python.

mod architecture;
mod archive;
mod build;
mod command;
mod deb;
mod error;
mod file;
mod glibc;
mod library;
mod library_folder;
mod licenses;
mod needed;
mod nixl;
mod package;
mod program;
mod python;
mod shared;
mod tool;
mod wheel;

use std::path::{Path, PathBuf};

pub(crate) use architecture::Architecture;
pub(crate) use command::CommandPackages;
use error::InstallError;
pub(crate) use glibc::Glibc;
pub(crate) use library::DebugInfo;
use library::VERSION;
pub(crate) use library_folder::LibraryFolder;
pub(crate) use nixl::NixlBackend;
pub(crate) use python::PythonPackage;

use crate::linking;

/// The functions of the header, one a line.
const EXPORTS: &str = include_str!("../../../tcpx-capi/exports.txt");

/// All that is in `include`.
const HEADERS: [&str; 8] = [
    "tcpx_fwd.hpp",
    "tcpx_logging.h",
    "tcpx_memory_desc.h",
    "tcpx_p2p.h",
    "tcpx_p2p.hpp",
    "tcpx_session.h",
    "tcpx_transfer.h",
    "tcpx_types.h",
];

/// Installation of the C library: its prefix and options.
pub(crate) struct Installation {
    pub(crate) prefix: PathBuf,
    pub(crate) library_folder: LibraryFolder,
    pub(crate) profile: String,
    /// Archive of an earlier build, which is installed as it is.
    pub(crate) archive: Option<PathBuf>,
    pub(crate) debug: DebugInfo,
    /// Oldest glibc that the shared library supports; `None` for that of this machine.
    pub(crate) glibc: Option<Glibc>,
}

impl Installation {
    /// Builds and installs everything. A missing tool is an error before anything is built.
    pub(crate) fn install(&self, root: &Path) -> Result<String, InstallError> {
        tool::require(tool::BINUTILS)?;
        let linker = shared::Linker::find(self.glibc, Architecture::HOST)?;
        let work = tempfile::tempdir().map_err(file::at(&std::env::temp_dir()))?;
        let (shared, archive) = (work.path().join("shared"), work.path().join("archive"));
        let exports: Vec<&str> = EXPORTS.lines().collect();

        let built = match &self.archive {
            Some(archive) => build::given(root, archive)?,
            None => build::build(root, &self.profile, Architecture::HOST)?,
        };
        shared::link(&linker, &built.archive, &shared, &exports, self.debug, work.path())?;
        let needed = needed::words(needed::check(&shared, self.glibc)?);
        archive::make(&built.archive, &archive, &exports, self.debug, work.path())?;

        self.install_libraries(&shared, &archive)?;
        self.install_headers_and_metadata(root)?;
        let licenses = self.prefix.join("share/licenses/tcpx");
        licenses::install(root, &built.packages, &licenses)?;
        Ok(format!("tcpx_p2p {VERSION} installed under {}{needed}", self.prefix.display()))
    }

    fn install_libraries(&self, shared: &Path, archive: &Path) -> Result<(), InstallError> {
        let folder = self.library_folder.under(&self.prefix);
        let soname = linking::soname();
        let full = format!("{soname}.{VERSION}");
        file::make_folder(&folder)?;
        file::copy(shared, &folder.join(&full))?;
        file::link(&full, &folder.join(&soname))?;
        file::link(&soname, &folder.join("libtcpx_p2p.so"))?;
        file::copy(archive, &folder.join("libtcpx_p2p.a"))
    }

    /// Installs headers, and the files that pkg-config and CMake read.
    fn install_headers_and_metadata(&self, root: &Path) -> Result<(), InstallError> {
        let include = self.prefix.join("include");
        let folder = self.library_folder.under(&self.prefix);
        let (pkgconfig, cmake) = (folder.join("pkgconfig"), folder.join("cmake/tcpx_p2p"));
        for folder in [&include, &pkgconfig, &cmake] {
            file::make_folder(folder)?;
        }
        for header in HEADERS {
            file::copy(&root.join("include").join(header), &include.join(header))?;
        }
        let (config, version) = ("tcpx_p2p-config.cmake", "tcpx_p2p-config-version.cmake");
        let soname = linking::soname();
        let pc = package::pkg_config(&self.library_folder);
        file::write(&pkgconfig.join("tcpx_p2p.pc"), &pc)?;
        file::write(&cmake.join(config), &package::cmake_config(&self.library_folder, &soname))?;
        file::write(&cmake.join(version), &package::cmake_version())
    }
}
