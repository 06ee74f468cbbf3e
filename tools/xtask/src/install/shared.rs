//! Shared library, which exports the names of the header with a version, and no others.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::architecture::Architecture;
use super::error::InstallError;
use super::glibc::Glibc;
use super::library::{DebugInfo, SYSTEM_LIBRARIES};
use super::{file, tool};
use crate::{abi, linking};

/// Linker of the shared library.
#[derive(Debug)]
pub(super) enum Linker {
    /// A compiler of this machine, against the C library that came with it.
    Compiler(Architecture),
    /// zig, which has the symbols of every glibc, with the command that calls it.
    Zig(&'static [&'static str], Glibc, Architecture),
}

impl Linker {
    /// Returns the linker for this glibc, or for that of this machine.
    pub(super) fn find(glibc: Option<Glibc>, arch: Architecture) -> Result<Self, InstallError> {
        const COMMANDS: [&[&str]; 2] = [&["zig"], &["python3", "-m", "ziglang"]];
        let Some(glibc) = glibc else { return Ok(Self::Compiler(arch)) };
        let is_here =
            |way: &&[&str]| tool::works(Command::new(way[0]).args(&way[1..]).arg("version"));
        let way = COMMANDS.into_iter().find(is_here).ok_or(InstallError::NoZig(glibc))?;
        Ok(Self::Zig(way, glibc, arch))
    }

    /// Returns the processor that it links for.
    pub(super) fn architecture(&self) -> Architecture {
        match self {
            Self::Compiler(arch) | Self::Zig(_, _, arch) => *arch,
        }
    }

    fn command(&self) -> Command {
        let Some(words) = self.words() else {
            return Command::new(self.architecture().tool("cc"));
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Returns the words of its command, if it is not a compiler of this machine.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        let Self::Zig(way, glibc, arch) = self else { return None };
        let target = format!("{}-linux-gnu.{glibc}", arch.name());
        let way = way.iter().map(|word| (*word).to_owned());
        Some(way.chain(["cc".to_owned(), "-target".to_owned(), target]).collect())
    }

    /// Returns whether the linker knows an argument: zig's does not know `-z text`, and refuses
    /// text relocations anyway.
    fn knows(&self, argument: &str) -> bool {
        matches!(self, Self::Compiler(_)) || argument != "-Wl,-z,text"
    }

    /// Returns the argument for a library of the system. The functions that unwind the stack are in
    /// one of zig's own, which is linked in.
    fn library(&self, name: &str) -> String {
        match (self, name) {
            (Self::Zig(..), "gcc_s") => "-lunwind".to_owned(),
            _ => format!("-l{name}"),
        }
    }
}

/// Links `to` from cargo's archive `from`. `work` is a folder for intermediate files.
pub(super) fn link(
    linker: &Linker,
    from: &Path,
    to: &Path,
    exports: &[&str],
    debug: DebugInfo,
    work: &Path,
) -> Result<(), InstallError> {
    let map = work.join("exports.map");
    file::write(&map, &version_map(exports))?;
    let mut version_script = OsString::from("-Wl,--version-script=");
    version_script.push(&map);

    let mut command = linker.command();
    command.args(["-shared", "-Wl,--whole-archive"]).arg(from).arg("-Wl,--no-whole-archive");
    command.arg(version_script).arg(format!("-Wl,-soname,{}", linking::soname()));
    command.args(linking::ARGUMENTS.into_iter().filter(|argument| linker.knows(argument)));
    command.args(["-Wl,--gc-sections", "-Wl,--as-needed"]);
    command.args(SYSTEM_LIBRARIES.map(|name| linker.library(name)));
    tool::run(command.arg("-o").arg(to))?;
    if debug == DebugInfo::Strip {
        tool::run(Command::new("strip").arg("--strip-debug").arg(to))?;
    }
    Ok(())
}

/// The list of exports as a linker reads it. A program remembers the version of each name it uses.
fn version_map(exports: &[&str]) -> String {
    let names: String = exports.iter().map(|name| format!("    {name};\n")).collect();
    format!("TCPX_{} {{\n  global:\n{names}  local: *;\n}};\n", abi::TCPX_ABI_VERSION)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::install::archive;

    /// A library in small: one name is exported, one is not, and a panic must be caught inside.
    const SOURCE: &str = r#"
        #[unsafe(no_mangle)]
        pub extern "C" fn shown(number: usize) -> usize {
            std::panic::set_hook(Box::new(|_| ()));
            std::panic::catch_unwind(|| hidden(number)).unwrap_or(42)
        }
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn hidden(number: usize) -> usize { [1, 2, 3][number] }
    "#;
    const PROGRAM: &str = "extern unsigned long shown(unsigned long);\n\
                           int main(void) { return shown(1) != 2 || shown(7) != 42; }\n";

    /// Makes an archive as cargo does, and a library of it that a program then calls.
    fn panics_are_caught(make: impl FnOnce(&Path, &Path, &Path) -> Result<(), InstallError>) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        file::write(&path("small.rs"), SOURCE).unwrap();
        file::write(&path("program.c"), PROGRAM).unwrap();
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition", "2024", "--crate-type", "staticlib", "-o"]);
        tool::run(rustc.arg(path("small.a")).arg(path("small.rs"))).unwrap();

        make(&path("small.a"), &path("library"), folder.path()).unwrap();
        // The loader looks for the soname.
        std::os::unix::fs::symlink(path("library"), path(&linking::soname())).unwrap();
        let mut cc = Command::new("cc");
        cc.arg(path("program.c")).arg(path("library")).arg("-o").arg(path("program"));
        cc.args(SYSTEM_LIBRARIES.map(|name| format!("-l{name}")));
        tool::run(&mut cc).unwrap();
        let mut program = Command::new(path("program"));
        tool::run(program.env("LD_LIBRARY_PATH", folder.path())).unwrap();
    }

    fn link_small(linker: &Linker) {
        panics_are_caught(|from, to, work| {
            link(linker, from, to, &["shown"], DebugInfo::Keep, work)?;
            let shown = tool::run(Command::new("nm").args(["-D", "--defined-only"]).arg(to))?;
            let name = format!("shown@@TCPX_{}", abi::TCPX_ABI_VERSION);
            assert!(shown.contains(&name) && !shown.contains("hidden"), "{shown}");
            Ok(())
        });
    }

    #[test]
    fn panics_are_caught_in_a_shared_library() {
        link_small(&Linker::Compiler(Architecture::HOST));
    }

    #[test]
    fn panics_are_caught_in_a_static_library() {
        panics_are_caught(|from, to, work| {
            archive::make(from, to, &["shown"], DebugInfo::Strip, work)
        });
    }

    #[test]
    fn panics_are_caught_in_a_shared_library_for_an_old_glibc() {
        match Linker::find("2.28".parse().ok(), Architecture::HOST) {
            Ok(zig) => link_small(&zig),
            Err(error) => writeln!(std::io::stderr(), "skipped: {error}").unwrap(),
        }
    }
}
