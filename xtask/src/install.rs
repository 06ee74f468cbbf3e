//! Installation of the C library: what a program needs to find it with pkg-config or CMake.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::abi::TCPX_ABI_VERSION;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the static library needs of the system: `rustc --print native-static-libs` for Linux with
/// glibc.
const SYSTEM_LIBRARIES: [&str; 7] = ["gcc_s", "util", "rt", "pthread", "m", "dl", "c"];

/// Why nothing, or not everything, was installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("cargo build failed: {0}")]
    Build(String),
    #[error("cargo build made no {0}")]
    Missing(&'static str),
    #[error("strip (binutils) {path}: {text}; --keep-debug installs without it")]
    Strip { path: PathBuf, text: String },
}

/// What becomes of the libraries' debug information, most of their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debug {
    /// It goes. The symbol table, which gives backtraces their names, stays.
    Strip,
    Keep,
}

/// Builds the libraries and lays everything down under `prefix`.
pub(crate) fn install(
    root: &Path,
    prefix: &Path,
    profile: &str,
    debug: Debug,
) -> Result<String, InstallError> {
    let built = build(root, profile)?;
    let library = prefix.join("lib");
    let include = prefix.join("include");
    let package = library.join("cmake/tcpx_p2p");
    for folder in [&library.join("pkgconfig"), &include, &package] {
        std::fs::create_dir_all(folder).map_err(at(folder))?;
    }
    let full = format!("libtcpx_p2p.so.{TCPX_ABI_VERSION}.{VERSION}");
    let soname = format!("libtcpx_p2p.so.{TCPX_ABI_VERSION}");
    lay_down(&built.shared, &library.join(&full), debug)?;
    link(&full, &library.join(&soname))?;
    link(&soname, &library.join("libtcpx_p2p.so"))?;
    lay_down(&built.archive, &library.join("libtcpx_p2p.a"), debug)?;
    for header in ["tcpx_p2p.h", "tcpx_p2p.hpp"] {
        copy(&root.join("include").join(header), &include.join(header))?;
    }
    write(&library.join("pkgconfig/tcpx_p2p.pc"), &pkg_config())?;
    write(&package.join("tcpx_p2p-config.cmake"), &cmake_config(&soname))?;
    write(&package.join("tcpx_p2p-config-version.cmake"), &cmake_version())?;
    Ok(format!("tcpx_p2p {VERSION} installed under {}", prefix.display()))
}

struct Built {
    shared: PathBuf,
    archive: PathBuf,
}

/// Runs cargo and reads from its messages where the libraries are.
fn build(root: &Path, profile: &str) -> Result<Built, InstallError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--package", "tcpx-capi", "--lib", "--profile", profile])
        .args(["--message-format", "json-render-diagnostics"])
        .output()
        .map_err(|error| InstallError::Build(error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(InstallError::Build(text));
    }
    let files = artifacts(&String::from_utf8_lossy(&output.stdout));
    let find = |name: &'static str| {
        let file = files.iter().find(|file| file.file_name().is_some_and(|file| file == name));
        file.cloned().ok_or(InstallError::Missing(name))
    };
    Ok(Built { shared: find("libtcpx_p2p.so")?, archive: find("libtcpx_p2p.a")? })
}

/// Files of the library's artifact, from cargo's messages: one JSON object a line.
fn artifacts(messages: &str) -> Vec<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "tcpx_p2p")
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .collect()
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> InstallError {
    let path = path.to_owned();
    move |error| InstallError::Io { path, error }
}

/// Removes what is there first: a program that has the old file mapped keeps it whole.
fn clear(path: &Path) -> Result<(), InstallError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), InstallError> {
    clear(to)?;
    std::fs::copy(from, to).map(|_| ()).map_err(at(from))
}

/// Copies a library, with its debug information or without.
fn lay_down(from: &Path, to: &Path, debug: Debug) -> Result<(), InstallError> {
    copy(from, to)?;
    if debug == Debug::Keep {
        return Ok(());
    }
    let failed = |text| InstallError::Strip { path: to.to_owned(), text };
    let output = Command::new("strip").arg("--strip-debug").arg(to).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn link(target: &str, path: &Path) -> Result<(), InstallError> {
    clear(path)?;
    symlink(target, path).map_err(at(path))
}

fn write(path: &Path, text: &str) -> Result<(), InstallError> {
    std::fs::write(path, text).map_err(at(path))
}

/// The prefix is found from where the file lies, so an installation can be moved.
fn pkg_config() -> String {
    let private = SYSTEM_LIBRARIES.map(|name| format!("-l{name}")).join(" ");
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: tcpx_p2p\n\
         Description: GPU memory between hosts over TCP\n\
         Version: {VERSION}\n\
         Libs: -L${{libdir}} -ltcpx_p2p\n\
         Libs.private: {private}\n\
         Cflags: -I${{includedir}}\n"
    )
}

fn cmake_config(soname: &str) -> String {
    let libraries = SYSTEM_LIBRARIES.join(";");
    format!(
        "# Targets: tcpx::p2p (shared), tcpx::p2p_static.\n\
         get_filename_component(_tcpx_p2p_prefix \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)\n\
         if(NOT TARGET tcpx::p2p)\n\
         \x20 add_library(tcpx::p2p SHARED IMPORTED)\n\
         \x20 set_target_properties(tcpx::p2p PROPERTIES\n\
         \x20   IMPORTED_LOCATION \"${{_tcpx_p2p_prefix}}/lib/{soname}\"\n\
         \x20   IMPORTED_SONAME \"{soname}\"\n\
         \x20   INTERFACE_INCLUDE_DIRECTORIES \"${{_tcpx_p2p_prefix}}/include\")\n\
         \x20 add_library(tcpx::p2p_static STATIC IMPORTED)\n\
         \x20 set_target_properties(tcpx::p2p_static PROPERTIES\n\
         \x20   IMPORTED_LOCATION \"${{_tcpx_p2p_prefix}}/lib/libtcpx_p2p.a\"\n\
         \x20   IMPORTED_LINK_INTERFACE_LANGUAGES \"C\"\n\
         \x20   INTERFACE_LINK_LIBRARIES \"{libraries}\"\n\
         \x20   INTERFACE_INCLUDE_DIRECTORIES \"${{_tcpx_p2p_prefix}}/include\")\n\
         endif()\n\
         unset(_tcpx_p2p_prefix)\n"
    )
}

/// Before 1.0 a minor version may break programs, so the minor version must be the same.
fn cmake_version() -> String {
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    format!(
        "set(PACKAGE_VERSION \"{VERSION}\")\n\
         if(PACKAGE_FIND_VERSION_MAJOR EQUAL {major} AND PACKAGE_FIND_VERSION_MINOR EQUAL {minor}\n\
         \x20  AND PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)\n\
         \x20 set(PACKAGE_VERSION_COMPATIBLE TRUE)\n\
         \x20 if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n\
         \x20   set(PACKAGE_VERSION_EXACT TRUE)\n\
         \x20 endif()\n\
         else()\n\
         \x20 set(PACKAGE_VERSION_COMPATIBLE FALSE)\n\
         endif()\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"tcpx_core"},"filenames":["/t/a.rlib"]}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","target":{"name":"tcpx_p2p"},"filenames":["/t/libtcpx_p2p.so","/t/x.a"]}"#,
        );
        assert_eq!(artifacts(messages), ["/t/libtcpx_p2p.so", "/t/x.a"].map(PathBuf::from));
    }
}
