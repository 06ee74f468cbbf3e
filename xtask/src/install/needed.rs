//! What a library that was linked needs of the system where it is to work.

use std::path::Path;
use std::process::Command;

use super::error::InstallError;
use super::glibc::Glibc;
use super::tool;

/// Reads which glibc a library needs, and says it. One that is later than `wanted` is an error.
pub(super) fn check(library: &Path, wanted: Option<Glibc>) -> Result<String, InstallError> {
    let mut readelf = Command::new("readelf");
    let versions = tool::run(readelf.args(["--wide", "--version-info"]).arg(library))?;
    let Some(found) = Glibc::newest(&versions) else { return Ok(String::new()) };
    match wanted {
        Some(wanted) if found > wanted => Err(InstallError::TooNew { wanted, found }),
        _ => Ok(format!("; needs glibc {found}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_needs_a_later_glibc_is_refused() {
        let program = std::env::current_exe().unwrap(); // needs one as a library does
        let check =
            |glibc: Option<&str>| check(&program, glibc.map(|version| version.parse().unwrap()));
        assert!(check(None).unwrap().starts_with("; needs glibc 2."));
        assert!(check(Some("2.999")).is_ok());
        let refused = check(Some("2.1")).unwrap_err();
        assert!(matches!(refused, InstallError::TooNew { .. }), "{refused}");
    }
}
