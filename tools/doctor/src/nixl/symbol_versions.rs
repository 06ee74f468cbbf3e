//! Versions of symbols: those that a library takes from others, and those that it has.

use object::elf::VER_FLG_WEAK;
use object::read::elf::ElfFile64;
use object::{Endianness, SectionIndex, StringTable};

/// A version of the symbols of a library, as `GLIBC_2.28` of `libc.so.6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) library: String,
    pub(super) version: String,
}

/// What a file needs, in the order of the file. The loader lets no such file in where one is
/// missing. A table that cannot be read has none from there on.
pub(super) fn needed(file: &ElfFile64<'_, Endianness>) -> Vec<Needed> {
    let mut all = Vec::new();
    let (endian, data) = (file.endian(), file.data());
    let Ok(Some((libraries, link))) = file.elf_section_table().gnu_verneed(endian, data) else {
        return all;
    };
    let Some(strings) = strings(file, link) else { return all };
    for (library, versions) in libraries.map_while(Result::ok) {
        let Ok(name) = library.file(endian, strings) else { break };
        for version in versions.map_while(Result::ok) {
            // The loader does without those.
            let is_weak = version.vna_flags.get(endian) & VER_FLG_WEAK != 0;
            let Ok(text) = version.name(endian, strings) else { break };
            if !is_weak {
                all.push(Needed { library: words(name), version: words(text) });
            }
        }
    }
    all
}

/// Returns the symbol versions that a library has.
pub(super) fn defined(file: &ElfFile64<'_, Endianness>) -> Vec<String> {
    let (endian, data) = (file.endian(), file.data());
    let Ok(Some((versions, link))) = file.elf_section_table().gnu_verdef(endian, data) else {
        return Vec::new();
    };
    let Some(strings) = strings(file, link) else { return Vec::new() };
    // The first name of each is its own; others are those that it follows.
    let own = versions.map_while(Result::ok).filter_map(|(_, mut names)| names.next().ok()?);
    own.filter_map(|name| Some(words(name.name(endian, strings).ok()?))).collect()
}

fn strings<'data>(
    file: &ElfFile64<'data, Endianness>,
    section: SectionIndex,
) -> Option<StringTable<'data>> {
    file.elf_section_table().strings(file.endian(), file.data(), section).ok()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
