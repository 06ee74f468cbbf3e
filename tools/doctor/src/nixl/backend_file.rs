//! `libplugin_TCPX.so`, read and not loaded.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, Object, ObjectSection, ObjectSymbol};

use super::symbol_versions::{Needed, needed};

/// Larger files are refused; with all symbols it has some tens of megabytes.
const MAX_BYTES: u64 = 512 << 20;
/// What NIXL looks for.
const ENTRY: &str = "nixl_plugin_init";
/// The text that says which version the file is.
const VERSION: &str = "tcpx_nixl_version";
/// A version is no longer than this.
const MAX_VERSION_BYTES: u64 = 64;

/// A file that NIXL could load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackendFile {
    /// Which version of tcpx it was built from, if it says so.
    pub(super) version: Option<String>,
    /// What it takes the C++ standard library for.
    pub(super) strings: Strings,
    /// What it needs of other libraries.
    pub(super) needs: Vec<Needed>,
}

/// How the strings are laid out that it takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strings {
    /// As NIXL's are.
    New,
    /// As libstdc++ had them before, and still has for those that ask.
    Old,
    /// As libc++ has them.
    OtherLibrary,
}

/// Reads a backend's file.
///
/// # Errors
/// Why NIXL could not load it, in words.
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
    let mut strings = Strings::New;
    for symbol in file.dynamic_symbols() {
        let Ok(name) = symbol.name() else { continue };
        match name {
            _ if symbol.is_undefined() => strings = strings.worse(of_symbol(name)),
            ENTRY => entry = true,
            VERSION => version = text(&file, &symbol),
            _ => {}
        }
    }
    if !entry {
        return Err(format!("it does not export {ENTRY}"));
    }
    Ok(BackendFile { version, strings, needs: needed(&file) })
}

/// Returns the content of a regular file.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // A pipe or a device could block or never end.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text that a symbol stands for, up to its NUL.
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

/// What the mangled name of a function says of its strings.
fn of_symbol(name: &str) -> Strings {
    if name.starts_with("_ZNSt3__1") || name.starts_with("_ZNKSt3__1") {
        Strings::OtherLibrary
    } else if name.starts_with("_ZNSs") || name.starts_with("_ZNKSs") || name.ends_with("ERKSs") {
        Strings::Old
    } else {
        Strings::New
    }
}

impl Strings {
    /// One function of another kind is enough.
    fn worse(self, other: Self) -> Self {
        if self == Self::New { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_tell_the_strings() {
        for (name, expected) in [
            ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm", Strings::New),
            ("_ZNSt13runtime_errorC1ERKNSt7__cxx1112basic_stringIcE", Strings::New),
            ("memcpy", Strings::New),
            ("_ZNSs6appendEPKcm", Strings::Old),
            ("_ZNKSs4sizeEv", Strings::Old),
            ("_ZNSt13runtime_errorC1ERKSs", Strings::Old),
            ("_ZNSt3__112basic_stringIcNS_11char_traitsIcEE", Strings::OtherLibrary),
        ] {
            assert_eq!(of_symbol(name), expected, "{name}");
        }
    }
}
