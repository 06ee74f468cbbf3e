//! Libraries that cargo builds with the tests.

use std::path::PathBuf;

/// Where cargo puts a plugin for a test or bench of this crate: beside it. Of an example, in the
/// folder next to its own.
///
/// # Panics
/// When this program does not know where it lies.
pub(crate) fn built(file: &str) -> PathBuf {
    let program = std::env::current_exe().expect("a program knows where it is");
    let beside = program.with_file_name(file);
    if beside.exists() { beside } else { program.with_file_name("../deps").join(file) }
}
