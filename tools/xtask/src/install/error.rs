//! Errors of an installation.

use std::path::PathBuf;

use super::glibc::Glibc;

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{name}: {text}")]
    Tool { name: String, text: String },
    #[error("{name} cannot be found: install it (Debian: apt-get install {package})")]
    NoTool { name: String, package: &'static str },
    #[error(
        "zig, which links for glibc {0}, cannot be found: pip install 'ziglang==0.17.*' (100 MB \
         to download, 400 MB on disk)"
    )]
    NoZig(Glibc),
    #[error("the library needs glibc {found}, which is later than {wanted}")]
    TooNew { wanted: Glibc, found: Glibc },
    #[error("cargo made no {0}")]
    Missing(&'static str),
    #[error(
        "the package of {0} has no text of its licence, which must be installed with the library"
    )]
    NoLicense(String),
}
