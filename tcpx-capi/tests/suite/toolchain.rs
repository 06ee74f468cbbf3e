//! Compilers, the libraries that cargo built for these tests, and the programs that they make.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use tcpx_testkit::skip;
use tempfile::TempDir;

use crate::program::Program;

/// Flags of a compiler with which every wrong access ends the program.
pub(crate) const SANITIZERS: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
/// System libraries that the static library needs.
const SYSTEM_LIBRARIES: [&str; 7] =
    ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    Shared,
    Static,
}

/// A compiler with the language it is used for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiler {
    pub(crate) command: &'static str,
    pub(crate) standard: &'static str,
    pub(crate) language: &'static str,
}

pub(crate) const GCC: Compiler = Compiler { command: "gcc", standard: "-std=c99", language: "c" };
pub(crate) const CLANG: Compiler =
    Compiler { command: "clang", standard: "-std=c99", language: "c" };
pub(crate) const GXX: Compiler =
    Compiler { command: "g++", standard: "-std=c++17", language: "c++" };
pub(crate) const CLANGXX: Compiler =
    Compiler { command: "clang++", standard: "-std=c++17", language: "c++" };

impl Compiler {
    /// Returns whether it is installed. Where `TCPX_TEST_REQUIRE` demands it, its absence is a
    /// failure.
    pub(crate) fn is_here(&self) -> bool {
        self.works(&[], "is not installed")
    }

    /// Returns whether it is installed, and can link a program with the sanitizers: their runtime
    /// may be a package of its own.
    pub(crate) fn has_sanitizers(&self) -> bool {
        self.is_here() && self.works(&SANITIZERS, "has no sanitizer runtime")
    }

    /// Returns whether it links a program with these flags. Each compiler is tried once.
    fn works(&self, flags: &'static [&'static str], otherwise: &str) -> bool {
        static WORKS: LazyLock<Mutex<HashMap<(&str, bool), bool>>> = LazyLock::new(Mutex::default);
        let mut works = WORKS.lock().unwrap_or_else(PoisonError::into_inner);
        let works = works.entry((self.command, flags.is_empty())).or_insert_with(|| {
            let folder = TempDir::new().unwrap();
            let (source, program) = (folder.path().join("empty"), folder.path().join("program"));
            std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
            let mut command = Command::new(self.command);
            command.args(flags).args(["-x", self.language]).arg(source).arg("-o").arg(program);
            command.output().is_ok_and(|output| output.status.success())
        });
        *works || skip("compilers", &format!("{} {otherwise}", self.command))
    }
}

/// Returns whether there is a GPU. Where `TCPX_TEST_REQUIRE` demands one, its absence is a failure.
pub(crate) fn has_gpu() -> bool {
    tcpx_core::gpu_count() > 0 || skip("gpu", "the CUDA driver shows no GPU")
}

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// This crate's C and C++ programs.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite").join(name)
}

/// A library that cargo built together with this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    there(test.parent().unwrap().join(name))
}

/// The C library in one of its two forms: that of the installation which `TCPX_TEST_PREFIX` names,
/// or what cargo built together with this test.
pub(crate) fn library(name: &str) -> PathBuf {
    match std::env::var_os("TCPX_TEST_PREFIX") {
        Some(prefix) => there(Path::new(&prefix).join("lib").join(name)),
        None => built(name),
    }
}

fn there(library: PathBuf) -> PathBuf {
    assert!(library.exists(), "there is no {}", library.display());
    library
}

/// A folder with the library under its soname, and the programs that are built against it.
pub(crate) struct Workshop(TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let soname = format!("libtcpx_p2p.so.{}", tcpx_p2p::TCPX_ABI_VERSION);
        for name in [soname.as_str(), "libtcpx_p2p.so"] {
            let shared = library("libtcpx_p2p.so");
            std::os::unix::fs::symlink(shared, folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    /// Compiles one source with all warnings as errors, without optimisation, and links it.
    pub(crate) fn build(
        &self,
        compiler: Compiler,
        linkage: Linkage,
        source: &Path,
        flags: &[&str],
    ) -> PathBuf {
        let program = self.0.path().join(format!("{}-{linkage:?}", compiler.command));
        let program = program.with_extension(source.file_stem().unwrap());
        let mut command = compile(compiler, source, flags);
        command.args(["-x", "none", "-o"]).arg(&program);
        match linkage {
            Linkage::Shared => {
                command.arg("-L").arg(self.0.path());
                command.args(["-ltcpx_p2p", "-Wl,-rpath,$ORIGIN"]);
            }
            Linkage::Static => {
                command.arg(library("libtcpx_p2p.a")).args(SYSTEM_LIBRARIES);
            }
        }
        succeed(&mut command);
        program
    }

    /// Compiles one source to an object.
    pub(crate) fn object(&self, compiler: Compiler, source: &Path, flags: &[&str]) -> PathBuf {
        let object = self.0.path().join(source.file_stem().unwrap()).with_extension("o");
        succeed(compile(compiler, source, flags).arg("-c").arg("-o").arg(&object));
        object
    }
}

/// Returns the command that compiles a source, without the arguments for its output.
fn compile(compiler: Compiler, source: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(compiler.command);
    command.args([compiler.standard, "-x", compiler.language, "-O0", "-g1", "-pthread"]);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]).args(flags);
    command.arg("-I").arg(root().join("include"));
    command.arg("-I").arg(root().join("examples/bootstrap")).arg(source);
    command
}

/// Builds one of this crate's programs, and runs it with these arguments to its end.
pub(crate) fn pass(
    compiler: Compiler,
    linkage: Linkage,
    name: &str,
    flags: &[&str],
    arguments: &[&str],
) {
    if compiler.is_here() {
        let workshop = Workshop::new();
        let program = workshop.build(compiler, linkage, &source(name), flags);
        Program::start(&program, arguments).pass();
    }
}

/// Runs a tool and returns what it printed.
pub(crate) fn tool(name: &str, arguments: &[&OsStr]) -> String {
    succeed(Command::new(name).args(arguments))
}

/// Runs a command that must succeed and returns what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}
