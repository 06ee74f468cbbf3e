//! Build by cargo: an archive of all code, from which both libraries come.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::architecture::Architecture;
use super::error::InstallError;
use super::tool;

const ARCHIVE: &str = "libtcpx_p2p.a";

/// Archive that cargo has built, and its packages.
pub(super) struct BuiltLibrary {
    pub(super) archive: PathBuf,
    /// Folders of its packages from a registry, by "name version".
    pub(super) packages: BTreeMap<String, PathBuf>,
}

pub(super) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Has cargo build the archive alone. Beside an rlib, it would leave link-time optimisation out.
pub(super) fn build(
    root: &Path,
    profile: &str,
    arch: Architecture,
) -> Result<BuiltLibrary, InstallError> {
    let mut command = cargo(root);
    command.args(["rustc", "--package", "tcpx-capi", "--lib", "--profile", profile]);
    command.args(["--crate-type", "staticlib"]).args(arch.cargo_words());
    let messages = tool::run(command.args(["--message-format", "json-render-diagnostics"]))?;
    let artifacts = artifacts(&messages);
    let archive = artifacts.iter().find_map(archive).ok_or(InstallError::Missing(ARCHIVE))?;
    Ok(BuiltLibrary { archive, packages: artifacts.iter().filter_map(package).collect() })
}

/// Returns an archive of an earlier build, with all packages from a registry in the workspace.
pub(super) fn given(root: &Path, archive: &Path) -> Result<BuiltLibrary, InstallError> {
    Ok(BuiltLibrary { archive: archive.to_owned(), packages: all_packages(root)? })
}

fn all_packages(root: &Path) -> Result<BTreeMap<String, PathBuf>, InstallError> {
    let metadata = tool::run(cargo(root).args(["metadata", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).unwrap_or_default();
    let packages = metadata["packages"].as_array().ok_or(InstallError::Missing("packages"))?;
    Ok(packages.iter().filter_map(|found| package_of(&found["id"], found)).collect())
}

/// Returns the artifacts among cargo's messages, which are one JSON object a line.
pub(super) fn artifacts(messages: &str) -> Vec<Value> {
    let objects = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.filter(|message| message["reason"] == "compiler-artifact").collect()
}

fn archive(artifact: &Value) -> Option<PathBuf> {
    let files = artifact["filenames"].as_array()?.iter().filter_map(Value::as_str);
    files.map(PathBuf::from).find(|file| file.file_name().is_some_and(|name| name == ARCHIVE))
}

/// Returns the package of an artifact, if it is from a registry.
pub(super) fn package(artifact: &Value) -> Option<(String, PathBuf)> {
    package_of(&artifact["package_id"], artifact)
}

/// Returns a package from a registry, whose id ends with `#name@version`, and its folder.
fn package_of(id: &Value, of: &Value) -> Option<(String, PathBuf)> {
    let (_, name) = id.as_str()?.strip_prefix("registry+")?.rsplit_once('#')?;
    let (name, version) = name.split_once('@')?;
    let folder = Path::new(of["manifest_path"].as_str()?).parent()?;
    Some((format!("{name} {version}"), folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_and_packages_are_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","package_id":"registry+https://x/index#libc@0.2.1","#,
            r#""manifest_path":"/r/libc-0.2.1/Cargo.toml","filenames":["/t/liblibc.rlib"]}"#,
            "\nnot json\n",
            r#"{"reason":"build-script-executed","package_id":"registry+https://x#other@1.0.0"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/tcpx-capi#0.1.0","#,
            r#""manifest_path":"/w/tcpx-capi/Cargo.toml","filenames":["/t/libtcpx_p2p.a"]}"#,
        );
        let artifacts = artifacts(messages);
        let archives: Vec<PathBuf> = artifacts.iter().filter_map(archive).collect();
        assert_eq!(archives, [PathBuf::from("/t/libtcpx_p2p.a")]);
        let packages: Vec<_> = artifacts.iter().filter_map(package).collect();
        assert_eq!(packages, [("libc 0.2.1".to_owned(), PathBuf::from("/r/libc-0.2.1"))]);
    }
}
