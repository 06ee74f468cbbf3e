//! Compilers, the libraries that cargo built for this test, and programs that never run for ever.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A program that takes longer is stuck.
const DEADLINE: Duration = Duration::from_secs(300);
/// What a compiler is told so that every wrong access ends the program.
pub(crate) const SANITIZERS: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
/// What the static library needs of the system.
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
    /// Whether it is installed. Where it is demanded by `TCPX_TEST_REQUIRE`, its absence is a
    /// failure.
    pub(crate) fn is_here(&self) -> bool {
        let is_here = Command::new(self.command).arg("--version").output().is_ok();
        is_here || skip("compilers", &format!("{} is not installed", self.command))
    }

    /// Whether it is installed, and can link a program with these sanitizers: their runtime may be
    /// a package of its own.
    pub(crate) fn has_sanitizers(&self, flags: &[&str]) -> bool {
        if !self.is_here() {
            return false;
        }
        let folder = TempDir::new().unwrap();
        let (source, program) = (folder.path().join("empty"), folder.path().join("program"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let mut command = Command::new(self.command);
        command.args(flags).args(["-x", self.language]).arg(source).arg("-o").arg(program);
        let output = command.output().unwrap();
        let why = format!("{} has no sanitizer runtime", self.command);
        output.status.success() || skip("compilers", &why)
    }
}

/// Whether there is a GPU. Where it is demanded by `TCPX_TEST_REQUIRE`, its absence is a failure.
pub(crate) fn has_gpu() -> bool {
    tcpx_core::gpu_count() > 0 || skip("gpu", "the CUDA driver shows no GPU")
}

/// Says why a test is skipped, or fails where what it lacks is demanded.
fn skip(lacking: &str, why: &str) -> bool {
    let required = std::env::var("TCPX_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.contains(lacking), "{lacking} required, but {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
    false
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

    /// Compiles one source with all warnings as errors and links it.
    pub(crate) fn build(
        &self,
        compiler: Compiler,
        linkage: Linkage,
        source: &Path,
        flags: &[&str],
    ) -> PathBuf {
        let program = self.0.path().join(format!("{}-{linkage:?}", compiler.command));
        let program = program.with_extension(source.file_stem().unwrap());
        let mut command = Command::new(compiler.command);
        command.args([compiler.standard, "-x", compiler.language]);
        command.args(["-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]);
        command.args(flags).arg("-I").arg(root().join("include"));
        command.arg("-I").arg(root().join("examples/bootstrap"));
        command.arg(source).args(["-x", "none"]).arg("-o").arg(&program);
        match linkage {
            Linkage::Shared => {
                command.arg("-L").arg(self.0.path());
                command.args(["-ltcpx_p2p", "-Wl,-rpath,$ORIGIN"]);
            }
            Linkage::Static => {
                command.arg(library("libtcpx_p2p.a")).args(SYSTEM_LIBRARIES);
            }
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}\n{errors}");
        program
    }
}

/// A running program. It is killed when it is dropped while it runs, or runs past its deadline.
pub(crate) struct Program {
    child: Child,
    name: String,
}

impl Program {
    pub(crate) fn start(path: &Path, arguments: &[impl AsRef<OsStr>]) -> Self {
        Self::start_with(path, arguments, &[])
    }

    /// Starts it with these variables besides.
    pub(crate) fn start_with(
        path: &Path,
        arguments: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
    ) -> Self {
        let child = Command::new(path)
            .args(arguments)
            .envs(variables.iter().copied())
            .env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=66")
            .env("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, name: path.display().to_string() }
    }

    /// Starts an example's server, which says its port first.
    pub(crate) fn serve(path: &Path, arguments: &[&str]) -> (Self, String) {
        Self::serve_with(path, arguments, &[])
    }

    /// Starts it with these variables besides.
    pub(crate) fn serve_with(
        path: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> (Self, String) {
        let mut program = Self::start_with(path, arguments, variables);
        // One byte at a time, so that nothing of what follows is taken away. A server that cannot
        // listen ends, which ends the line.
        let mut line = String::new();
        let output = program.child.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, output).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").unwrap_or_default().to_owned();
        assert!(!port.is_empty(), "{} said {line:?} instead of its port", program.name);
        (program, port)
    }

    /// Waits for its end, which must be a success with PASSED as its last word.
    pub(crate) fn pass(mut self) -> String {
        let (status, output, errors) = self.finish();
        let passed = status.success() && output.trim_end().ends_with("PASSED");
        assert!(passed, "{}: {status}\n{output}{errors}", self.name);
        output
    }

    /// Waits for its end, which must be that of a check that failed. Returns what it says of it.
    pub(crate) fn fail(mut self) -> String {
        let (status, output, errors) = self.finish();
        assert_eq!(status.code(), Some(1), "{}: {status}\n{output}{errors}", self.name);
        errors
    }

    /// Waits for its end: how it ended, and what it wrote to its two outputs.
    fn finish(&mut self) -> (ExitStatus, String, String) {
        let output = read_all(self.child.stdout.take().unwrap());
        let errors = read_all(self.child.stderr.take().unwrap());
        let status = self.end();
        (status, output.join().unwrap(), errors.join().unwrap())
    }

    fn end(&mut self) -> ExitStatus {
        let give_up = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() >= give_up {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("{} did not end within {DEADLINE:?}", self.name);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads beside the wait, so that a full pipe stops nobody.
fn read_all(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Runs a tool and returns what it printed.
pub(crate) fn tool(name: &str, arguments: &[&OsStr]) -> String {
    let output = Command::new(name).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
