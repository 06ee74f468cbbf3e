//! Chores of this repository, run as `cargo xtask COMMAND`.

#[path = "../../../tcpx-capi/src/abi.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod abi;
mod header;
mod install;
#[path = "../../../tcpx-capi/linking.rs"]
mod linking;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use install::{
    Architecture, CommandPackages, DebugInfo, Glibc, Installation, LibraryFolder, NixlBackend,
    PythonPackage,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of this repository")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes include/tcpx_p2p.h from tcpx-capi.
    Header {
        /// Only compare: fail when the committed header is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Builds tcpx-capi and installs libraries, headers, pkg-config file, CMake package and
    /// licences. Needs binutils and a C compiler.
    Install {
        /// Prefix of P/lib, P/include, P/share/licenses/tcpx. It may be moved afterwards.
        #[arg(long, value_name = "P")]
        prefix: PathBuf,
        /// Folder of the libraries below the prefix: lib64, lib/x86_64-linux-gnu.
        #[arg(long, value_name = "FOLDER", default_value = "lib")]
        libdir: LibraryFolder,
        /// Oldest glibc that the shared library supports, such as 2.28. It is linked by zig then
        /// (pip install 'ziglang==0.17.*'). Without this it is the compiler's own glibc.
        #[arg(long, value_name = "VERSION")]
        glibc: Option<Glibc>,
        /// Cargo profile of the libraries.
        #[arg(long, default_value = "dist")]
        profile: String,
        /// Install this libtcpx_p2p.a of an earlier build by cargo, and build nothing.
        #[arg(long, value_name = "FILE", conflicts_with = "profile")]
        archive: Option<PathBuf>,
        /// Keep the debug information in the libraries: far larger, with line numbers in backtraces
        /// and for debuggers.
        #[arg(long)]
        keep_debug: bool,
    },
    /// Builds libplugin_TCPX.so, the backend for NIXL, with all of tcpx in it. Needs binutils, a
    /// C++ compiler and CMake, and no part of NIXL.
    Nixl(PackageArguments),
    /// Packs that backend into a wheel, nixl-tcpx, which installs it where NIXL looks. Needs
    /// Python, too.
    Wheel(PackageArguments),
    /// Packs the Python package `tcpx` into a wheel, with the command `tcpx`. Needs binutils and
    /// Python.
    Python(PackageArguments),
    /// Packs the command `tcpx` into a .deb and a .tar.gz, with manual pages, completions and
    /// licences. Needs binutils, tar and gzip, and nothing of Debian.
    Package(PackageArguments),
    /// Runs tests: those of a tier (fast, deep, nightly), or single steps.
    Test {
        /// Tiers and steps.
        #[arg(value_name = "TIER|STEP", required_unless_present = "list")]
        what: Vec<String>,
        /// Print all steps, with their tiers.
        #[arg(long)]
        list: bool,
    },
}

#[derive(clap::Args)]
struct PackageArguments {
    /// Output folder; for `nixl`, the folder for NIXL_PLUGIN_DIR.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Oldest glibc that it supports, such as 2.28. It is linked by zig then.
    #[arg(long, value_name = "VERSION")]
    glibc: Option<Glibc>,
    /// Processor that it is for. For another than this machine's it takes its target of Rust,
    /// Debian's cross compiler and qemu-user.
    #[arg(long, value_name = "PROCESSOR", default_value = Architecture::HOST.name())]
    arch: Architecture,
    /// Cargo profile of tcpx.
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Keep the debug information in it.
    #[arg(long)]
    keep_debug: bool,
}

impl From<PackageArguments> for NixlBackend {
    fn from(asked: PackageArguments) -> Self {
        let PackageArguments { out: folder, glibc, arch, profile, keep_debug } = asked;
        Self { folder, profile, debug: debug(keep_debug), glibc, arch }
    }
}

impl From<PackageArguments> for CommandPackages {
    fn from(asked: PackageArguments) -> Self {
        let PackageArguments { out: folder, glibc, arch, profile, keep_debug } = asked;
        Self { folder, profile, debug: debug(keep_debug), glibc, arch }
    }
}

impl From<PackageArguments> for PythonPackage {
    fn from(asked: PackageArguments) -> Self {
        let PackageArguments { out: folder, glibc, arch, profile, keep_debug } = asked;
        Self { folder, profile, debug: debug(keep_debug), glibc, arch }
    }
}

/// Returns the value of `--keep-debug`.
fn debug(keep: bool) -> DebugInfo {
    if keep { DebugInfo::Keep } else { DebugInfo::Strip }
}

/// Returns the workspace's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."))
}

fn run(command: Command) -> Result<String, Box<dyn std::error::Error>> {
    Ok(match command {
        Command::Header { check: false } => header::write(root())?,
        Command::Header { check: true } => header::check(root())?,
        Command::Install { prefix, libdir, glibc, profile, archive, keep_debug } => {
            let (library_folder, debug) = (libdir, debug(keep_debug));
            let what = Installation { prefix, library_folder, profile, archive, debug, glibc };
            what.install(root())?
        }
        Command::Nixl(backend) => NixlBackend::from(backend).build(root())?,
        Command::Wheel(backend) => NixlBackend::from(backend).pack(root())?,
        Command::Python(package) => PythonPackage::from(package).pack(root())?,
        Command::Package(packages) => CommandPackages::from(packages).pack(root())?,
        Command::Test { list: true, .. } => test::list(),
        Command::Test { what, .. } => test::run(root(), &what)?,
    })
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program's output")]
fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
