//! Wheels: packages of Python, laid out as a tree and packed by `bindings/wheel.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::architecture::Architecture;
use super::error::InstallError;
use super::glibc::Glibc;
use super::library::VERSION;
use super::{file, tool};

/// Tree of a wheel's files, in a folder of its own.
pub(super) struct WheelTree {
    folder: tempfile::TempDir,
}

impl WheelTree {
    /// Begins a tree with a package's metadata, in which the version is filled in.
    pub(super) fn new(metadata: &Path) -> Result<Self, InstallError> {
        let folder = tempfile::tempdir().map_err(file::at(&std::env::temp_dir()))?;
        let text = std::fs::read_to_string(metadata).map_err(file::at(metadata))?;
        file::write(&folder.path().join("METADATA"), &text.replace("{version}", VERSION))?;
        Ok(Self { folder })
    }

    /// Adds the list of what other packages find in this one.
    pub(super) fn add_entry_points(&self, from: &Path) -> Result<(), InstallError> {
        file::copy(from, &self.folder.path().join("entry_points.txt"))
    }

    /// Returns the folder for licences.
    pub(super) fn licenses(&self) -> PathBuf {
        self.folder.path().join("licenses")
    }

    /// Makes and returns a folder whose contents are installed there.
    pub(super) fn package(&self, name: &str) -> Result<PathBuf, InstallError> {
        self.make(&format!("package/{name}"))
    }

    /// Makes and returns the folder of programs.
    pub(super) fn scripts(&self) -> Result<PathBuf, InstallError> {
        self.make("scripts")
    }

    fn make(&self, path: &str) -> Result<PathBuf, InstallError> {
        let folder = self.folder.path().join(path);
        file::make_folder(&folder)?;
        Ok(folder)
    }

    /// Copies the files of a package's folder that end in one of `endings`.
    pub(super) fn add_package(&self, from: &Path, endings: &[&str]) -> Result<(), InstallError> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let to = self.package(&name)?;
        for entry in from.read_dir().map_err(file::at(from))? {
            let path = entry.map_err(file::at(from))?.path();
            let ending = path.extension().unwrap_or_default().to_string_lossy();
            if endings.contains(&&*ending) {
                file::copy(&path, &to.join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(())
    }

    /// Packs the tree for these interpreters, as "py3-none". Returns the wheel's path.
    pub(super) fn pack(
        self,
        root: &Path,
        tag: &str,
        needed: Glibc,
        arch: Architecture,
        out: &Path,
    ) -> Result<String, InstallError> {
        let mut python = Command::new("python3");
        python.arg(root.join("bindings/wheel.py")).arg(self.folder.path());
        let wheel = tool::run(python.args([tag, &needed.to_string(), arch.name()]).arg(out))?;
        Ok(wheel.trim_end().to_owned())
    }
}
