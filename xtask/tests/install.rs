//! An installation is complete: pkg-config and CMake find it, the examples build against it and
//! run.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The workspace's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Whether these programs are installed. Where `TCPX_TEST_REQUIRE` demands `tools`, a missing one
/// is a failure.
fn are_here(tools: &[&str]) -> bool {
    use std::io::Write;
    let required = std::env::var("TCPX_TEST_REQUIRE").unwrap_or_default();
    let missing = |tool: &&&str| Command::new(**tool).arg("--version").output().is_err();
    let Some(tool) = tools.iter().find(missing) else { return true };
    assert!(!required.contains("tools"), "{tool} is required and not installed");
    let _ = writeln!(std::io::stderr(), "skipped: {tool} is not installed");
    false
}

/// Runs a command that must succeed and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{errors}");
    text
}

fn install(prefix: &Path, options: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    run(command.args(["install", "--profile", "dev", "--prefix"]).arg(prefix).args(options));
}

/// The installed library: its bytes and the names of its sections.
fn shared_library(prefix: &Path) -> (u64, String) {
    let path = prefix.join("lib/libtcpx_p2p.so");
    let sections = run(Command::new("readelf").args(["--wide", "--sections"]).arg(&path));
    (path.metadata().unwrap().len(), sections)
}

#[test]
fn debug_information_is_installed_only_when_asked_for() {
    let folder = TempDir::new().unwrap();
    let (small, whole) = (folder.path().join("small"), folder.path().join("whole"));
    install(&small, &[]);
    install(&whole, &["--keep-debug"]);
    let ((small_bytes, small_sections), (whole_bytes, whole_sections)) =
        (shared_library(&small), shared_library(&whole));
    assert!(whole_sections.contains(".debug_line"), "{whole_sections}");
    assert!(!small_sections.contains(".debug_"), "{small_sections}");
    assert!(small_sections.contains(".symtab"), "backtraces need names: {small_sections}");
    assert!(2 * small_bytes < whole_bytes, "{small_bytes} of {whole_bytes} bytes");
    let archive = |prefix: &Path| prefix.join("lib/libtcpx_p2p.a").metadata().unwrap().len();
    assert!(archive(&small) < archive(&whole));
}

/// Runs an example between two processes.
fn hello(program: &Path) {
    use std::io::{BufRead, BufReader};
    let mut server =
        Command::new(program).arg("server").stdout(Stdio::piped()).spawn().expect("it was built");
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    // The example's own deadlines end it, and these reads, when it is stuck.
    let port = lines.next().unwrap().unwrap();
    let port = port.strip_prefix("port ").unwrap();
    let sent = run(Command::new(program).args(["client", "127.0.0.1", port]));
    let last = lines.last().unwrap().unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!((sent.trim_end().lines().last(), last.as_str()), (Some("PASSED"), "PASSED"));
}

#[test]
fn an_installation_serves_pkg_config_and_cmake() {
    let folder = TempDir::new().unwrap();
    let prefix = folder.path().join("prefix");
    install(&prefix, &[]);
    install(&prefix, &[]); // over itself
    let moved = folder.path().join("moved");
    std::fs::rename(&prefix, &moved).unwrap(); // nothing in it says where it was made

    for file in
        ["lib/libtcpx_p2p.so", "lib/libtcpx_p2p.a", "include/tcpx_p2p.h", "include/tcpx_p2p.hpp"]
    {
        assert!(moved.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let target = std::fs::read_link(moved.join("lib/libtcpx_p2p.so")).unwrap();
    let section = run(Command::new("readelf").arg("-d").arg(moved.join("lib/libtcpx_p2p.so")));
    assert!(section.contains(&format!("soname: [{}]", target.display())), "{section}");

    if are_here(&["pkg-config", "make", "gcc", "g++"]) {
        with_pkg_config(&moved, &folder.path().join("make"));
        statically(&moved, &folder.path().join("hello_static"));
    }
    if are_here(&["cmake", "gcc", "g++"]) {
        with_cmake(&moved, &folder.path().join("cmake"), &[]);
        with_cmake(&moved, &folder.path().join("cmake_static"), &["-DTCPX_P2P_STATIC=ON"]);
    }
}

fn with_pkg_config(prefix: &Path, build: &Path) {
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("examples")).arg(format!("BUILD={}", build.display()));
    run(make.arg(format!("PKG_CONFIG_PATH={}", prefix.join("lib/pkgconfig").display())));
    hello(&build.join("hello"));
    hello(&build.join("hello_cpp"));
}

/// `pkg-config --static` names everything that the archive needs.
fn statically(prefix: &Path, program: &Path) {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = run(command.args(["--static", "--cflags", "--libs", "tcpx_p2p"]));
    let flags = flags.replace("-ltcpx_p2p", "-l:libtcpx_p2p.a");
    let mut gcc = Command::new("gcc");
    gcc.arg("-std=c99").arg("-I").arg(root().join("examples/bootstrap"));
    gcc.arg(root().join("examples/c/hello.c")).arg("-o").arg(program);
    run(gcc.args(flags.split_whitespace()));
    hello(program);
}

fn with_cmake(prefix: &Path, build: &Path, options: &[&str]) {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("examples")).arg("-B").arg(build).args(options);
    run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new("cmake").arg("--build").arg(build));
    hello(&build.join("hello"));
    hello(&build.join("hello_cpp"));
}
