//! Check of the plugin's file, which is read without loading it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::read::elf::{Dyn, ElfFile64, FileHeader, Sym};
use object::{Endianness, elf};
use tcpx_sys::{NcclNetV7, SYMBOL};

use crate::diagnosis::Diagnosis;
use crate::machine::host::Host;
use crate::machine::library_path;
use crate::machine::mount::mount_of;
use crate::machine::tree::Tree;
use crate::report::Finding;
use crate::table::plugin as table;
use crate::variables::Env;

/// Size above which files are refused; a plugin has a few megabytes.
const MAX_PLUGIN_BYTES: u64 = 512 << 20;
/// Size of the v7 table, in bytes.
const TABLE_BYTES: u64 = size_of::<NcclNetV7>() as u64;
/// Text in every build of Google's plugin, as part of the table's `name`.
const HARDWARE_MARK: &[u8] = b"GPUDirectTCPX";
/// Text in every build of our software plugin: the names of its settings begin so.
const SOFTWARE_MARK: &[u8] = b"TCPX_SOFT_";

/// Kind of plugin that a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginKind {
    /// Google's GPUDirect-TCPX plugin: all checks apply.
    Hardware,
    /// Our plugin over plain TCP sockets, which needs none of the hardware.
    Software,
    /// A readable file that is neither.
    Other,
}

/// Facts that the file contains about itself.
struct Library {
    machine: u16,
    is_shared_object: bool,
    /// Whether the table is a defined data symbol, and its size in bytes.
    table: Option<(bool, u64)>,
    /// Other symbols by which NCCL finds network plugins, `ncclNetPlugin_v8`,
    /// `ncclCollNetPlugin_v7`.
    other_symbols: Vec<String>,
    needed: Vec<String>,
    run_paths: Vec<String>,
}

/// Examines the file of the plugin at `path`, which lies below the host's root when absolute. The
/// file is read, never loaded.
#[must_use]
pub fn check_plugin_file(host: &Host<'_>, path: &Path) -> (PluginKind, Vec<Finding>) {
    let (tree, env) = (&host.tree(), host.env);
    let shown = path.display().to_string();
    let found = |diagnosis, seen: String| Finding::new(diagnosis, seen).with("<PATH>", &shown);
    let bytes = match read(&tree.path(path)) {
        Ok(bytes) => bytes,
        Err(error) => {
            let diagnosis = unreadable(error.kind());
            return (PluginKind::Other, vec![found(diagnosis, format!("{shown}: {error}"))]);
        }
    };
    let library = match Library::parse(&bytes) {
        Ok(library) => library,
        Err(error) => {
            let seen = format!("{shown}: {error} ({} bytes)", bytes.len());
            return (PluginKind::Other, vec![found(&table::PLUGIN_NOT_LOADABLE, seen)]);
        }
    };
    let kind = kind_of(&bytes);
    let mut findings = Vec::new();
    findings.extend(library.check_type(&shown));
    findings.extend(library.check_table(&shown, kind));
    findings.extend(library.check_needed(tree, env, path));
    findings.extend(check_mount(tree, path));
    if kind == PluginKind::Software {
        findings.push(found(&table::PLUGIN_IS_SOFTWARE, format!("{shown} is the software plugin")));
    }
    (kind, findings)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    // A pipe or a device could block or never end.
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > MAX_PLUGIN_BYTES {
        return Err(io::Error::other("far too large for a plugin"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_PLUGIN_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(kind: io::ErrorKind) -> &'static Diagnosis {
    match kind {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => &table::PLUGIN_MISSING,
        io::ErrorKind::PermissionDenied => &table::PLUGIN_UNREADABLE,
        _ => &table::PLUGIN_NOT_LOADABLE,
    }
}

fn kind_of(bytes: &[u8]) -> PluginKind {
    let has = |mark: &[u8]| memchr::memmem::find(bytes, mark).is_some();
    // The software plugin may mention the plugin that it stands for.
    if has(SOFTWARE_MARK) {
        PluginKind::Software
    } else if has(HARDWARE_MARK) {
        PluginKind::Hardware
    } else {
        PluginKind::Other
    }
}

impl Library {
    fn parse(bytes: &[u8]) -> object::Result<Self> {
        let file: ElfFile64<'_, Endianness> = ElfFile64::parse(bytes)?;
        let endian = file.endian();
        let header = file.elf_header();
        let sections = header.sections(endian, bytes)?;
        let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
        let mut table = None;
        let mut other_symbols = Vec::new();
        for symbol in symbols.iter().filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF) {
            let name = symbols.symbol_name(endian, symbol)?;
            if name == SYMBOL.as_bytes() {
                table = Some((symbol.st_type() == elf::STT_OBJECT, symbol.st_size(endian)));
            } else if [&b"ncclNetPlugin_v"[..], b"ncclCollNetPlugin_v"]
                .iter()
                .any(|p| name.starts_with(p))
            {
                other_symbols.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        let (mut needed, mut run_paths) = (Vec::new(), Vec::new());
        if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
            let strings = sections.strings(endian, bytes, strings)?;
            for entry in entries {
                let text = || -> object::Result<String> {
                    Ok(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned())
                };
                match entry.tag32(endian) {
                    Some(elf::DT_NEEDED) => needed.push(text()?),
                    Some(elf::DT_RUNPATH | elf::DT_RPATH) => {
                        run_paths.extend(text()?.split(':').map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
        Ok(Self {
            machine: header.e_machine(endian),
            is_shared_object: header.e_type(endian) == elf::ET_DYN,
            table,
            other_symbols,
            needed,
            run_paths,
        })
    }

    fn check_type(&self, shown: &str) -> Option<Finding> {
        let expected = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
        let (diagnosis, seen) = if self.machine != expected {
            let seen = format!("{shown} is for ELF machine {}, this is {expected}", self.machine);
            (&table::PLUGIN_WRONG_MACHINE, seen)
        } else if !self.is_shared_object {
            (&table::PLUGIN_NOT_LOADABLE, format!("{shown} is no shared object"))
        } else {
            return None;
        };
        Some(Finding::new(diagnosis, seen).with("<PATH>", shown))
    }

    fn check_table(&self, shown: &str, kind: PluginKind) -> Option<Finding> {
        let others = self.other_symbols.join(", ");
        let (diagnosis, seen) = match self.table {
            // The original exports the v7 table only, the software plugin later ones too.
            _ if kind == PluginKind::Other && !self.other_symbols.is_empty() => {
                (&table::PLUGIN_OTHER_VENDOR, format!("{shown} exports {others}"))
            }
            None => (&table::PLUGIN_SYMBOL_MISSING, format!("{shown} does not export {SYMBOL}")),
            Some((is_data, bytes)) if !is_data || bytes < TABLE_BYTES => {
                let what = if is_data { "data" } else { "no data" };
                (
                    &table::PLUGIN_SYMBOL_SHAPE,
                    format!("{shown}: {SYMBOL} is {what} of {bytes} bytes"),
                )
            }
            Some(_) if kind == PluginKind::Other => {
                (&table::PLUGIN_OTHER_VENDOR, format!("{shown} does not call itself GPUDirectTCPX"))
            }
            Some(_) => return None,
        };
        Some(Finding::new(diagnosis, seen).with("<PATH>", shown))
    }

    fn check_needed(&self, tree: &Tree<'_>, env: &Env, path: &Path) -> Vec<Finding> {
        let origin = path.parent().unwrap_or(Path::new("/"));
        let missing = self.needed.iter().filter(|name| {
            let is_linker = name.starts_with("ld-linux");
            !is_linker && library_path::find(tree, env, &self.run_paths, origin, name).is_none()
        });
        let shown = path.display().to_string();
        missing
            .map(|name| {
                Finding::new(&table::PLUGIN_DEPENDENCY_MISSING, format!("{shown} needs {name}"))
                    .with("<LIBRARY>", name)
                    .with("<PATH>", &shown)
            })
            .collect()
    }
}

fn check_mount(tree: &Tree<'_>, path: &Path) -> Option<Finding> {
    let real = tree.canonical(path).ok()?;
    let mountinfo = tree.text("/proc/self/mountinfo").ok()?;
    let mount = mount_of(&mountinfo, &real).filter(|mount| mount.is_noexec)?;
    let point = mount.point.display().to_string();
    let seen = format!("{} lies on {point}, mounted noexec", real.display());
    Some(
        Finding::new(&table::PLUGIN_ON_NOEXEC, seen)
            .with("<MOUNT>", &point)
            .with("<PATH>", &path.display().to_string()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_to_read_has_its_diagnosis() {
        for (kind, expected) in [
            (io::ErrorKind::NotFound, &table::PLUGIN_MISSING),
            (io::ErrorKind::NotADirectory, &table::PLUGIN_MISSING),
            (io::ErrorKind::PermissionDenied, &table::PLUGIN_UNREADABLE),
            (io::ErrorKind::IsADirectory, &table::PLUGIN_NOT_LOADABLE),
        ] {
            assert_eq!(unreadable(kind).code, expected.code, "{kind:?}");
        }
    }
}
