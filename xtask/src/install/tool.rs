//! Programs that the installation runs, and what is said when one is not there or fails.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use super::error::InstallError;

/// All of binutils that is used.
const BINUTILS: [&str; 6] = ["ar", "as", "ld", "objcopy", "readelf", "strip"];

/// Fails before the first minute is spent on a build, not after it.
pub(super) fn require_binutils() -> Result<(), InstallError> {
    BINUTILS.into_iter().try_for_each(|name| run(Command::new(name).arg("--version")).map(|_| ()))
}

/// Whether this command can be run and succeeds.
pub(super) fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|end| end.success())
}

/// Runs a command that must succeed, and returns what it printed.
pub(super) fn run(command: &mut Command) -> Result<String, InstallError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound if BINUTILS.contains(&name.as_str()) => {
            InstallError::NoBinutils(name.clone())
        }
        _ => InstallError::Tool { name: name.clone(), text: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(InstallError::Tool { name, text })
}
