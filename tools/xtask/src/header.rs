//! `include/tcpx_p2p.h`, generated from the exported items of `tcpx-capi`.

use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationStyle, EnumConfig, Language, Style};

const INTRODUCTION: &str = "\
/*
 * libtcpx_p2p: GPU memory between hosts over TCP.
 *
 * Generated from tcpx-capi by `cargo xtask header`; changes by hand are lost. docs/c-api has a page
 * for each object.
 *
 * These rules hold for every function:
 * - It returns a tcpx_status: TCPX_OK is 0, and failures are negative. tcpx_last_error() has the
 *   words for the calling thread.
 * - It checks pointers for NULL, numbers for their range, and lengths for their limits.
 * - Outputs come last, and are written only on success. Sizes that say how large a buffer must be
 *   are the exception.
 * - Handles are numbers that are looked up, never addresses. One that is stale, of the wrong kind
 *   or made up gives TCPX_ERR_HANDLE.
 * - Any thread may call it, unless its comment says otherwise.
 * - In a child forked after the first session it does nothing, and gives TCPX_ERR_FORKED.
 * - Sizes and offsets are in bytes. Times are in the unit with which the name ends.
 */";

/// Error of writing or checking the header.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("generating the header: {0}")]
    Generate(Box<cbindgen::Error>),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error(
        "{path} differs from the exports of tcpx-capi (line {line}); run `cargo xtask header` and commit the result"
    )]
    Drift { path: PathBuf, line: usize },
}

fn path(root: &Path) -> PathBuf {
    root.join("include/tcpx_p2p.h")
}

/// Writes the header.
pub(crate) fn write(root: &Path) -> Result<String, HeaderError> {
    let path = path(root);
    let text = generate(root)?;
    match std::fs::write(&path, text) {
        Ok(()) => Ok(format!("{} written", path.display())),
        Err(error) => Err(HeaderError::Io { path, error }),
    }
}

/// Compares the committed header with the generated one.
pub(crate) fn check(root: &Path) -> Result<String, HeaderError> {
    let path = path(root);
    let wanted = generate(root)?;
    let found = match std::fs::read_to_string(&path) {
        Ok(found) => found,
        Err(error) => return Err(HeaderError::Io { path, error }),
    };
    match first_difference(&wanted, &found) {
        None => Ok(format!("{} is up to date", path.display())),
        Some(line) => Err(HeaderError::Drift { path, line }),
    }
}

/// Returns the number of the first line that differs, from 1.
fn first_difference(wanted: &str, found: &str) -> Option<usize> {
    if wanted == found {
        return None;
    }
    let equal = wanted.lines().zip(found.lines()).take_while(|(wanted, found)| wanted == found);
    Some(equal.count() + 1)
}

fn generate(root: &Path) -> Result<String, HeaderError> {
    let bindings = Builder::new()
        .with_config(config())
        .with_crate(root.join("tcpx-capi"))
        .generate()
        .map_err(|error| HeaderError::Generate(Box::new(error)))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8_lossy(&text).replace("# Safety\n", "Pointers:\n");
    Ok(text.lines().map(in_parentheses).collect())
}

/// Returns a line with its newline. Negative constants get parentheses, so that `x -NAME` is right
/// in C.
fn in_parentheses(line: &str) -> String {
    match line.strip_prefix("#define ").and_then(|define| define.split_once(" -")) {
        Some((name, number)) => format!("#define {name} (-{number})\n"),
        None => format!("{line}\n"),
    }
}

fn config() -> Config {
    // The workspace has one version for all its crates.
    let version = env!("CARGO_PKG_VERSION");
    let number = |part: &str| format!("#define TCPX_VERSION_{part}");
    let versions = format!(
        "\n/** Version of this header; tcpx_version() is that of the library. */\n\
         #define TCPX_VERSION \"{version}\"\n\
         {} {}\n{} {}\n{} {}",
        number("MAJOR"),
        env!("CARGO_PKG_VERSION_MAJOR"),
        number("MINOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        number("PATCH"),
        env!("CARGO_PKG_VERSION_PATCH"),
    );
    Config {
        language: Language::C,
        header: Some(INTRODUCTION.to_owned()),
        include_guard: Some("TCPX_P2P_H".to_owned()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        after_includes: Some(versions),
        cpp_compat: true,
        style: Style::Both,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::Doxy,
        line_length: 100,
        tab_width: 2,
        enumeration: EnumConfig { prefix_with_name: false, ..EnumConfig::default() },
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_header_is_up_to_date() {
        check(crate::root()).unwrap();
    }

    #[test]
    fn only_negative_constants_get_parentheses() {
        assert_eq!(in_parentheses("#define NONE -1"), "#define NONE (-1)\n");
        assert_eq!(in_parentheses("#define ONE 1"), "#define ONE 1\n");
        assert_eq!(in_parentheses(" * a - b"), " * a - b\n");
    }

    #[test]
    fn drift_is_found_at_its_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\nb\n", "a\n"), Some(2));
        assert_eq!(first_difference("a\n", "a"), Some(2));
    }
}
