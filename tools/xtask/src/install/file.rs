//! Files that are installed, in place of older ones.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::error::InstallError;

pub(super) fn at(path: &Path) -> impl FnOnce(Error) -> InstallError {
    let path = path.to_owned();
    move |error| InstallError::Io { path, error }
}

/// Removes an old file: a program that has it mapped keeps it whole.
pub(super) fn clear(path: &Path) -> Result<(), InstallError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), InstallError> {
    clear(to)?;
    std::fs::copy(from, to).map(|_| ()).map_err(at(from))
}

pub(super) fn link(target: &str, path: &Path) -> Result<(), InstallError> {
    clear(path)?;
    symlink(target, path).map_err(at(path))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), InstallError> {
    std::fs::write(path, text).map_err(at(path))
}

pub(super) fn make_folder(path: &Path) -> Result<(), InstallError> {
    std::fs::create_dir_all(path).map_err(at(path))
}

/// Makes an empty folder, without files of an older installation.
pub(super) fn make_fresh_folder(path: &Path) -> Result<(), InstallError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at(path)(error)),
        _ => make_folder(path),
    }
}
