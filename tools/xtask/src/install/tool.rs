//! Programs that the installation runs, and what is said when one is not there or fails.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use super::error::InstallError;

/// All of binutils that is used.
pub(super) const BINUTILS: &[&str] = &["ar", "as", "ld", "objcopy", "readelf", "strip"];

/// Fails before the first minute is spent on a build, not after it.
pub(super) fn require(names: &[&str]) -> Result<(), InstallError> {
    names.iter().try_for_each(|name| run(Command::new(name).arg("--version")).map(|_| ()))
}

/// The package of Debian that has a program.
fn package(name: &str) -> Option<&'static str> {
    Some(match name {
        _ if BINUTILS.contains(&name) => "binutils",
        "cc" => "gcc libc6-dev",
        "c++" => "g++",
        "cmake" => "cmake make",
        "python3" => "python3",
        "tar" => "tar",
        "gzip" => "gzip",
        _ => return None,
    })
}

/// Returns whether this command can be run and succeeds.
pub(super) fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|end| end.success())
}

/// Runs a command that must succeed, and returns what it printed.
pub(super) fn run(command: &mut Command) -> Result<String, InstallError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match package(&name) {
        Some(package) if error.kind() == ErrorKind::NotFound => {
            InstallError::NoTool { name: name.clone(), package }
        }
        _ => InstallError::Tool { name: name.clone(), text: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(InstallError::Tool { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_to_install() {
        for (name, words) in [
            ("objcopy", "apt-get install binutils"),
            ("c++", "apt-get install g++"),
            ("cmake", "apt-get install cmake make"),
        ] {
            let missing = run(Command::new(name).env("PATH", "/nowhere")).unwrap_err().to_string();
            assert!(missing.contains(name) && missing.contains(words), "{missing}");
        }
        let other = run(&mut Command::new("tcpx-no-such-program")).unwrap_err().to_string();
        assert!(other.starts_with("tcpx-no-such-program: "), "{other}");
    }

    #[test]
    fn a_program_that_fails_is_named_with_what_it_said() {
        let failed = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert_eq!(failed.to_string(), "sh: why");
    }
}
