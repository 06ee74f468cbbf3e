//! Symbol versions: those that a library requires of others, and those that it defines.

use object::elf::VER_FLG_WEAK;
use object::read::elf::ElfFile64;
use object::{Endianness, SectionIndex, StringTable};

/// Symbol version of a library, such as `GLIBC_2.28` of `libc.so.6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequiredVersion {
    pub(super) library: String,
    pub(super) version: String,
}

/// Returns the versions that a file requires, in the order of the file. The loader refuses a file
/// where one is missing. A table is read up to the first entry that is malformed.
pub(super) fn required(file: &ElfFile64<'_, Endianness>) -> Vec<RequiredVersion> {
    let mut all = Vec::new();
    let (endian, data) = (file.endian(), file.data());
    let Ok(Some((libraries, link))) = file.elf_section_table().gnu_verneed(endian, data) else {
        return all;
    };
    let Some(strings) = strings(file, link) else { return all };
    for (library, versions) in libraries.map_while(Result::ok) {
        let Ok(name) = library.file(endian, strings) else { break };
        for version in versions.map_while(Result::ok) {
            // The loader does not require weak versions.
            let is_weak = version.vna_flags.get(endian) & VER_FLG_WEAK != 0;
            let Ok(text) = version.name(endian, strings) else { break };
            if !is_weak {
                all.push(RequiredVersion { library: lossy_text(name), version: lossy_text(text) });
            }
        }
    }
    all
}

/// Returns the symbol versions that a library defines.
pub(super) fn defined(file: &ElfFile64<'_, Endianness>) -> Vec<String> {
    let (endian, data) = (file.endian(), file.data());
    let Ok(Some((versions, link))) = file.elf_section_table().gnu_verdef(endian, data) else {
        return Vec::new();
    };
    let Some(strings) = strings(file, link) else { return Vec::new() };
    // The first name of an entry is its own; the others are its predecessors.
    let own = versions.map_while(Result::ok).filter_map(|(_, mut names)| names.next().ok()?);
    own.filter_map(|name| Some(lossy_text(name.name(endian, strings).ok()?))).collect()
}

/// Returns the string table of a section.
fn strings<'data>(
    file: &ElfFile64<'data, Endianness>,
    section: SectionIndex,
) -> Option<StringTable<'data>> {
    file.elf_section_table().strings(file.endian(), file.data(), section).ok()
}

/// Converts bytes to text.
fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
