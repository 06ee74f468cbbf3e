//! Version of glibc that a linked library requires.

use std::path::Path;
use std::process::Command;

use super::error::InstallError;
use super::glibc::Glibc;
use super::tool;

/// Returns the glibc that a library needs, if any. A later one than `wanted` is an error.
pub(super) fn check(library: &Path, wanted: Option<Glibc>) -> Result<Option<Glibc>, InstallError> {
    let mut readelf = Command::new("readelf");
    let versions = tool::run(readelf.args(["--wide", "--version-info"]).arg(library))?;
    match (Glibc::newest(&versions), wanted) {
        (Some(found), Some(wanted)) if found > wanted => {
            Err(InstallError::TooNew { wanted, found })
        }
        (found, _) => Ok(found),
    }
}

/// Returns the needed glibc as a text that follows another.
pub(super) fn words(needed: Option<Glibc>) -> String {
    needed.map_or_else(String::new, |glibc| format!("; needs glibc {glibc}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_needs_a_later_glibc_is_refused() {
        let program = std::env::current_exe().unwrap(); // needs one as a library does
        let check =
            |glibc: Option<&str>| check(&program, glibc.map(|version| version.parse().unwrap()));
        assert!(words(check(None).unwrap()).starts_with("; needs glibc 2."));
        assert!(check(Some("2.999")).is_ok());
        let refused = check(Some("2.1")).unwrap_err();
        assert!(matches!(refused, InstallError::TooNew { .. }), "{refused}");
    }
}
