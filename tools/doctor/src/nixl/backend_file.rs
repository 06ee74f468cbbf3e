//! File of a backend, `libplugin_TCPX.so`, which is read and not loaded.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, Object, ObjectSection, ObjectSymbol};

use super::symbol_versions::{RequiredVersion, required};

/// Largest file that is read; with all symbols a backend has some tens of megabytes.
const MAX_BYTES: u64 = 512 << 20;
/// Symbol that NIXL looks up.
const ENTRY: &str = "nixl_plugin_init";
/// Symbol with the text of the version.
const VERSION: &str = "tcpx_nixl_version";
/// Longest version.
const MAX_VERSION_BYTES: u64 = 64;

/// Facts about a file that NIXL could load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackendFile {
    /// Version of tcpx, if the file has it.
    pub(super) version: Option<String>,
    /// Layout of strings of its C++ standard library.
    pub(super) strings: StringAbi,
    /// Symbol versions that it requires of other libraries.
    pub(super) requires: Vec<RequiredVersion>,
}

/// Layout of `std::string` in the interface of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringAbi {
    /// Layout of libstdc++ since C++11, which NIXL has.
    Current,
    /// Layout of libstdc++ before C++11, which it still offers.
    PreCxx11,
    /// Layout of libc++.
    Libcxx,
}

/// Reads a backend's file.
///
/// # Errors
/// The reason why NIXL could not load it.
pub(super) fn read(path: &Path) -> Result<BackendFile, String> {
    let bytes = bytes(path).map_err(|error| error.to_string())?;
    let file: ElfFile64<'_, Endianness> =
        ElfFile64::parse(&*bytes).map_err(|error| format!("{error} ({} bytes)", bytes.len()))?;
    let own =
        if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };
    if file.architecture() != own {
        return Err(format!("it is for {:?}", file.architecture()));
    }
    let mut entry = false;
    let mut version = None;
    let mut strings = StringAbi::Current;
    for symbol in file.dynamic_symbols() {
        let Ok(name) = symbol.name() else { continue };
        match name {
            _ if symbol.is_undefined() => strings = strings.combine(of_symbol(name)),
            ENTRY => entry = true,
            VERSION => version = text(&file, &symbol),
            _ => {}
        }
    }
    if !entry {
        return Err(format!("it does not export {ENTRY}"));
    }
    Ok(BackendFile { version, strings, requires: required(&file) })
}

/// Returns the content of a regular file.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // Reading a pipe or a device may block, or never end.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the text at a symbol, up to its NUL.
fn text<'data>(
    file: &ElfFile64<'data, Endianness>,
    symbol: &impl ObjectSymbol<'data>,
) -> Option<String> {
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let count = symbol.size().min(MAX_VERSION_BYTES);
    let bytes = section.data_range(symbol.address(), count).ok()??;
    let text = bytes.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Returns the layout of strings by the mangled name of a function.
fn of_symbol(name: &str) -> StringAbi {
    if name.starts_with("_ZNSt3__1") || name.starts_with("_ZNKSt3__1") {
        StringAbi::Libcxx
    } else if name.starts_with("_ZNSs") || name.starts_with("_ZNKSs") || name.ends_with("ERKSs") {
        StringAbi::PreCxx11
    } else {
        StringAbi::Current
    }
}

impl StringAbi {
    /// Combines the layouts of two functions: one that is not current decides.
    fn combine(self, other: Self) -> Self {
        if self == Self::Current { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_have_the_layout_of_strings() {
        for (name, expected) in [
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm",
                StringAbi::Current,
            ),
            ("_ZNSt13runtime_errorC1ERKNSt7__cxx1112basic_stringIcE", StringAbi::Current),
            ("memcpy", StringAbi::Current),
            ("_ZNSs6appendEPKcm", StringAbi::PreCxx11),
            ("_ZNKSs4sizeEv", StringAbi::PreCxx11),
            ("_ZNSt13runtime_errorC1ERKSs", StringAbi::PreCxx11),
            ("_ZNSt3__112basic_stringIcNS_11char_traitsIcEE", StringAbi::Libcxx),
        ] {
            assert_eq!(of_symbol(name), expected, "{name}");
        }
    }
}
