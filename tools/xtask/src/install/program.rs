//! Build of the command `tcpx`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::architecture::Architecture;
use super::error::InstallError;
use super::shared::Linker;
use super::{build, file, tool};

pub(super) const PROGRAM: &str = "tcpx";

/// Program that cargo has built, and its packages.
pub(super) struct BuiltCommand {
    pub(super) program: PathBuf,
    /// Folders of its packages from a registry, by "name version".
    pub(super) packages: BTreeMap<String, PathBuf>,
}

/// Has cargo build the command.
pub(super) fn build(
    root: &Path,
    profile: &str,
    linker: &Linker,
) -> Result<BuiltCommand, InstallError> {
    let words = ["--package", "tcpx-cli", "--bin", PROGRAM, "--profile", profile];
    let artifacts = link(root, &words, linker)?;
    let program = artifacts.iter().find_map(program).ok_or(InstallError::Missing(PROGRAM))?;
    Ok(BuiltCommand { program, packages: artifacts.iter().filter_map(build::package).collect() })
}

/// Has cargo build the target that `words` name, and returns its artifacts. `linker` links the
/// target only: build scripts are linked by the compiler's own.
pub(super) fn link(
    root: &Path,
    words: &[&str],
    linker: &Linker,
) -> Result<Vec<Value>, InstallError> {
    let mut cargo = build::cargo(root);
    cargo.arg("rustc").args(words);
    cargo.args(linker.architecture().cargo_words());
    cargo.args(["--locked", "--message-format", "json-render-diagnostics"]);
    if let Some(words) = linker.words() {
        let script = write_script(root, &words)?;
        cargo.arg("--").arg("-C").arg(format!("linker={}", script.display()));
    } else if linker.architecture() != Architecture::HOST {
        cargo.arg("--").arg("-C").arg(format!("linker={}", linker.architecture().tool("cc")));
    }
    Ok(build::artifacts(&tool::run(&mut cargo)?))
}

fn program(artifact: &Value) -> Option<PathBuf> {
    let is_ours = artifact["target"]["name"] == PROGRAM;
    artifact["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
}

/// Writes the script that calls zig in place of a compiler, always to the same path, because cargo
/// builds anew for another linker.
fn write_script(root: &Path, words: &[String]) -> Result<PathBuf, InstallError> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let folder = root.join(target).join("xtask");
    file::make_folder(&folder)?;
    let path = folder.join(words.last().map_or("zig", String::as_str));
    file::write(&path, &script(words))?;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).map_err(file::at(&path))?;
    Ok(path)
}

/// Returns a script that replaces or leaves out the arguments of rustc that zig does not know. The
/// functions that unwind the stack are in one of zig's own libraries, and zig has a linker of its
/// own.
fn script(words: &[String]) -> String {
    format!(
        "#!/bin/sh\n\
         for word; do\n\
         \x20   shift\n\
         \x20   case $word in\n\
         \x20   -lgcc_s) set -- \"$@\" -lunwind ;;\n\
         \x20   -fuse-ld=* | -B*gcc-ld*) ;;\n\
         \x20   *) set -- \"$@\" \"$word\" ;;\n\
         \x20   esac\n\
         done\n\
         exec {} \"$@\"\n",
        words.join(" ")
    )
}

/// Returns the libraries of the system that a program needs.
pub(super) fn libraries(program: &Path) -> Result<Vec<String>, InstallError> {
    let mut readelf = Command::new("readelf");
    Ok(needed(&tool::run(readelf.args(["--wide", "--dynamic"]).arg(program))?))
}

/// Returns the libraries in lines such as `0x0000000000000001 (NEEDED)  Shared library:
/// [libc.so.6]`.
fn needed(dynamic: &str) -> Vec<String> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let names = lines.filter_map(|line| line.split_once('[')?.1.split_once(']'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_zig_does_not_know_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("linker");
        file::write(&path, &script(&["echo".into(), "cc".into()])).unwrap();
        let mut sh = Command::new("sh");
        sh.arg(&path).args(["-fuse-ld=lld", "-B/r/bin/gcc-ld", "a b.o", "-lgcc_s", "-Wl,-O1"]);
        assert_eq!(tool::run(&mut sh).unwrap(), "cc a b.o -lunwind -Wl,-O1\n");
    }

    #[test]
    fn the_program_and_its_libraries_are_found() {
        let artifact = |name: &str| serde_json::json!({"target": {"name": name}, "executable": format!("/t/{name}")});
        assert_eq!(program(&artifact("tcpx")), Some(PathBuf::from("/t/tcpx")));
        assert_eq!(program(&artifact("build-script-build")), None);
        let dynamic = " 0x1 (NEEDED)   Shared library: [libgcc_s.so.1]\n\
                       \x200x1 (NEEDED)   Shared library: [libc.so.6]\n 0x0 (NULL)  0x0\n";
        assert_eq!(needed(dynamic), ["libgcc_s.so.1", "libc.so.6"]);
    }
}
