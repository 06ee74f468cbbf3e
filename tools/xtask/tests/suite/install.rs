//! An installation is complete: pkg-config and CMake find it, the examples build against it and
//! run, and its libraries show and need what they should.

#[path = "../../../../tcpx-capi/src/abi.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod abi;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tcpx_testkit::process::Owned;
use tcpx_testkit::{PATIENCE, skip};
use tempfile::TempDir;

/// The workspace's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns whether these programs are installed. Where `TCPX_TEST_REQUIRE` demands `tools`, a
/// missing one is a failure.
fn are_here(tools: &[&str]) -> bool {
    let missing = |tool: &&&str| Command::new(**tool).arg("--version").output().is_err();
    let Some(tool) = tools.iter().find(missing) else { return true };
    skip("tools", &format!("{tool} is not installed"))
}

/// Returns whether there is a zig, as a program or as a package of Python's. Where
/// `TCPX_TEST_REQUIRE` demands `zig`, its absence is a failure.
fn zig_is_here() -> bool {
    let ways: [&[&str]; 2] = [&["zig", "version"], &["python3", "-m", "ziglang", "version"]];
    let works = |way: &[&str]| {
        let output = Command::new(way[0]).args(&way[1..]).output();
        output.is_ok_and(|output| output.status.success())
    };
    ways.into_iter().any(works) || skip("zig", "zig is not installed")
}

/// Runs a command that must succeed and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{errors}");
    text
}

/// Installs the archive that cargo has built together with this test.
fn install(prefix: &Path, options: &[&str]) -> String {
    let test = std::env::current_exe().unwrap();
    let archive = test.parent().unwrap().join("libtcpx_p2p.a");
    assert!(archive.exists(), "there is no {}", archive.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["install", "--prefix"]).arg(prefix).arg("--archive").arg(archive).args(options);
    run(&mut command)
}

/// The installation that the tests share. It was made elsewhere: nothing in it says where.
fn installation() -> &'static Path {
    static INSTALLATION: OnceLock<PathBuf> = OnceLock::new();
    INSTALLATION.get_or_init(|| {
        let folders = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // A test program leaves its own behind, since statics are not dropped.
        for left in names_in(folders) {
            let Some(of) = left.strip_prefix("installation-") else { continue };
            if !Path::new("/proc").join(of).exists() {
                fs::remove_dir_all(folders.join(&left)).unwrap();
            }
        }
        let folder = folders.join(format!("installation-{}", std::process::id()));
        let (made, moved) = (folder.join("made"), folder.join("moved"));
        install(&made, &[]);
        fs::rename(&made, &moved).unwrap();
        moved
    })
}

/// Makes a shared library of a C source, or a program.
fn compile(source: &str, to: &Path, flags: &[&str], libraries: &[&Path]) {
    let file = to.with_extension("c");
    fs::write(&file, source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(flags).arg(&file).args(libraries).arg("-o").arg(to);
    run(gcc.args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]));
}

/// Names that a shared library defines for others, with their versions.
fn exported(library: &Path) -> Vec<String> {
    let text = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.map(str::to_owned).collect()
}

/// The installed library: its bytes and the names of its sections.
fn shared_library(prefix: &Path) -> (u64, String) {
    let path = prefix.join("lib/libtcpx_p2p.so");
    let sections = run(Command::new("readelf").args(["--wide", "--sections"]).arg(&path));
    (path.metadata().unwrap().len(), sections)
}

#[test]
#[ignore = "deep: two installations more"]
fn debug_information_is_installed_only_when_asked_for() {
    let folder = TempDir::new().unwrap();
    let archive = || folder.path().join("lib/libtcpx_p2p.a").metadata().unwrap().len();
    install(folder.path(), &["--keep-debug"]);
    let (whole_bytes, whole_sections) = shared_library(folder.path());
    let whole_archive = archive();
    install(folder.path(), &[]); // over the other
    let (small_bytes, small_sections) = shared_library(folder.path());
    assert!(whole_sections.contains(".debug_line"), "{whole_sections}");
    assert!(!small_sections.contains(".debug_"), "{small_sections}");
    assert!(small_sections.contains(".symtab"), "backtraces need names: {small_sections}");
    // A third at least: what is compiled from C has none in either.
    assert!(3 * small_bytes < 2 * whole_bytes, "{small_bytes} of {whole_bytes} bytes");
    assert!(archive() < whole_archive);
}

/// Runs an example between two processes.
fn hello(program: &Path) {
    let mut server = Owned::start(Command::new(program).arg("server").stdout(Stdio::piped()));
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    // The example's own deadlines end it, and these reads, when it is stuck.
    let port = lines.next().unwrap().unwrap();
    let port = port.strip_prefix("port ").unwrap();
    let sent = run(Command::new(program).args(["client", "127.0.0.1", port]));
    let last = lines.last().unwrap().unwrap();
    assert!(server.wait_for(PATIENCE).unwrap().success());
    assert_eq!((sent.trim_end().lines().last(), last.as_str()), (Some("PASSED"), "PASSED"));
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_installation_is_complete() {
    let prefix = installation();
    for file in ["libtcpx_p2p.so", "libtcpx_p2p.a"] {
        assert!(prefix.join("lib").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    assert_eq!(names_in(&prefix.join("include")), names_in(&root().join("include")));
    let target = fs::read_link(prefix.join("lib/libtcpx_p2p.so")).unwrap();
    let section = run(Command::new("readelf").arg("-d").arg(prefix.join("lib/libtcpx_p2p.so")));
    assert!(section.contains(&format!("soname: [{}]", target.display())), "{section}");
    licenses_are_complete(&prefix.join("share/licenses/tcpx"));
}

#[test]
fn pkg_config_finds_an_installation() {
    if are_here(&["pkg-config", "make", "gcc", "g++"]) {
        let folder = TempDir::new().unwrap();
        for example in ["hello", "hello_cpp"] {
            let program = folder.path().join(example);
            with_pkg_config(&installation().join("lib"), folder.path(), program.to_str().unwrap());
            hello(&program);
        }
    }
}

#[test]
fn cmake_finds_an_installation() {
    if are_here(&["cmake", "gcc", "g++"]) {
        let folder = TempDir::new().unwrap();
        let find = format!("-DCMAKE_PREFIX_PATH={}", installation().display());
        with_cmake(folder.path(), "hello", &[&find, "-DTCPX_P2P_STATIC=ON"]);
        hello(&folder.path().join("hello"));
    }
}

#[test]
#[ignore = "deep: all examples"]
fn all_examples_are_made_with_pkg_config() {
    if are_here(&["pkg-config", "make", "gcc", "g++"]) {
        let folder = TempDir::new().unwrap();
        with_pkg_config(&installation().join("lib"), folder.path(), "all");
        hello(&folder.path().join("hello"));
        hello(&folder.path().join("hello_cpp"));
    }
}

/// The examples with one form of the library.
fn all_with_cmake(is_static: &str) {
    if are_here(&["cmake", "gcc", "g++"]) {
        let folder = TempDir::new().unwrap();
        let find = format!("-DCMAKE_PREFIX_PATH={}", installation().display());
        with_cmake(folder.path(), "all", &[&find, &format!("-DTCPX_P2P_STATIC={is_static}")]);
        hello(&folder.path().join("hello"));
        hello(&folder.path().join("hello_cpp"));
    }
}

#[test]
#[ignore = "deep: all examples"]
fn all_examples_are_made_with_cmake() {
    all_with_cmake("OFF");
}

#[test]
#[ignore = "deep: all examples"]
fn all_examples_are_made_with_cmake_and_the_static_library() {
    all_with_cmake("ON");
}

#[test]
#[ignore = "deep: another installation"]
fn libraries_may_lie_in_a_folder_of_another_name() {
    let folder = TempDir::new().unwrap();
    let prefix = folder.path().join("prefix");
    install(&prefix, &["--libdir", "lib/some-linux-gnu"]);
    let libraries = prefix.join("lib/some-linux-gnu");
    assert!(libraries.join("libtcpx_p2p.so").exists());
    assert!(!prefix.join("lib/libtcpx_p2p.so").exists());
    if are_here(&["pkg-config", "make", "gcc", "g++"]) {
        let program = folder.path().join("hello");
        with_pkg_config(&libraries, folder.path(), program.to_str().unwrap());
        hello(&program);
    }
    if are_here(&["cmake", "gcc", "g++"]) {
        let package = format!("-Dtcpx_p2p_DIR={}", libraries.join("cmake/tcpx_p2p").display());
        with_cmake(&folder.path().join("cmake"), "hello", &[&package]);
        hello(&folder.path().join("cmake/hello"));
    }
}

#[test]
fn every_name_of_the_shared_library_has_a_version() {
    let library = installation().join("lib/libtcpx_p2p.so");
    let list = fs::read_to_string(root().join("tcpx-capi/exports.txt")).unwrap();
    let version = format!("TCPX_{}", abi::TCPX_ABI_VERSION);
    let mut wanted: Vec<String> = list.lines().map(|name| format!("{name}@@{version}")).collect();
    wanted.push(version);
    wanted.sort();
    let mut found = exported(&library);
    found.sort();
    assert_eq!(found, wanted);
    is_linked_with_care(&library);
}

/// What a linker says of a library that it was told to link as ours should be.
fn is_linked_with_care(library: &Path) {
    let section = run(Command::new("readelf").arg("-dW").arg(library));
    assert!(!section.contains("TEXTREL"), "{section}");
    assert!(section.contains("NODELETE") && section.contains("BIND_NOW"), "{section}");
}

#[test]
fn the_static_library_shows_nothing_and_clashes_with_nothing() {
    if !are_here(&["gcc"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name| folder.path().join(name);
    let archive = installation().join("lib/libtcpx_p2p.a");

    let mine = "extern const char *tcpx_version(void);\n\
                const char *mine(void) { return tcpx_version(); }\n";
    compile(mine, &path("mine.so"), &["-shared", "-fPIC"], &[&archive]);
    assert_eq!(exported(&path("mine.so")), ["mine"]);

    // The other has all of the standard library too, under the same names.
    let source = "#[unsafe(no_mangle)] pub extern \"C\" fn other() -> usize {\n\
                  std::panic::catch_unwind(|| std::env::args().count()).unwrap_or(0) }\n";
    fs::write(path("other.rs"), source).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "staticlib"]).arg(path("other.rs"));
    run(rustc.arg("-o").arg(path("libother.a")));
    let both = "extern const char *tcpx_version(void); extern unsigned long other(void);\n\
                int main(void) { return !tcpx_version()[0] || other() != 1; }\n";
    compile(both, &path("both"), &[], &[&archive, &path("libother.a")]);
    run(&mut Command::new(path("both")));
}

#[test]
#[ignore = "deep: another installation, linked by zig"]
fn the_shared_library_works_with_an_old_glibc() {
    if !zig_is_here() || !are_here(&["pkg-config", "make", "gcc", "g++"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let report = install(folder.path(), &["--glibc", "2.28"]);
    assert!(report.contains("needs glibc 2."), "{report}");
    let library = folder.path().join("lib/libtcpx_p2p.so");
    let versions = run(Command::new("readelf").args(["--wide", "--version-info"]).arg(&library));
    let needed = versions.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_2."));
    let needed = needed.map(|minor| minor.split('.').next().unwrap().parse::<u32>().unwrap());
    assert!(needed.max().unwrap() <= 28, "{versions}");
    is_linked_with_care(&library);
    let program = folder.path().join("hello");
    with_pkg_config(&folder.path().join("lib"), folder.path(), program.to_str().unwrap());
    hello(&program);
}

#[test]
fn a_missing_tool_is_an_error_before_anything_is_built() {
    let folder = TempDir::new().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let refused = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.env("PATH", &tools).env("CARGO", "/nowhere/cargo").args(["install", "--prefix"]);
        let output = command.arg(folder.path().join("prefix")).args(options).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let text = refused(&[]);
    assert!(
        text.contains("ar cannot be found: install it (Debian: apt-get install binutils)"),
        "{text}"
    );
    for tool in ["ar", "as", "ld", "objcopy", "readelf", "strip"] {
        let path = std::env::var_os("PATH").unwrap();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(tool));
        let real = places.find(|place| place.exists()).unwrap();
        std::os::unix::fs::symlink(real, tools.join(tool)).unwrap();
    }
    let text = refused(&["--glibc", "2.28"]);
    assert!(text.contains("pip install 'ziglang"), "{text}");
    let text = refused(&[]);
    assert!(text.contains("/nowhere/cargo"), "{text}");
    assert!(!folder.path().join("prefix").exists());
}

/// Makes one of the examples, or all.
fn with_pkg_config(libraries: &Path, build: &Path, target: &str) {
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("examples")).arg(format!("BUILD={}", build.display()));
    make.arg(format!("PKG_CONFIG_PATH={}", libraries.join("pkgconfig").display()));
    run(make.arg(target));
}

/// `pkg-config --static` names everything that the archive needs. A linker that finds both
/// libraries takes the shared one, unless the archive is named.
#[test]
fn pkg_config_links_the_static_library() {
    if !are_here(&["pkg-config", "gcc"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("hello");
    let flags = static_flags(installation());
    hello_with(&flags.replace("-ltcpx_p2p", "-l:libtcpx_p2p.a"), &program);

    let alone = folder.path().join("alone");
    fs::create_dir_all(alone.join("lib/pkgconfig")).unwrap();
    for file in ["include", "lib/libtcpx_p2p.a", "lib/pkgconfig/tcpx_p2p.pc"] {
        std::os::unix::fs::symlink(installation().join(file), alone.join(file)).unwrap();
    }
    hello_with(&static_flags(&alone), &program);
}

fn static_flags(prefix: &Path) -> String {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    run(command.args(["--static", "--cflags", "--libs", "tcpx_p2p"]))
}

fn hello_with(flags: &str, program: &Path) {
    let mut gcc = Command::new("gcc");
    gcc.arg("-std=c99").arg("-I").arg(root().join("examples/bootstrap"));
    gcc.arg(root().join("examples/c/hello.c")).arg("-o").arg(program);
    run(gcc.args(flags.split_whitespace()));
    let needed = run(Command::new("readelf").arg("-d").arg(program));
    assert!(!needed.contains("libtcpx_p2p"), "{needed}");
    hello(program);
}

/// Asserts that tcpx's licence is installed, and a text for each package in the list.
fn licenses_are_complete(folder: &Path) {
    let ours = fs::read(root().join("LICENSE")).unwrap();
    assert_eq!(fs::read(folder.join("LICENSE")).unwrap(), ours);
    let list = fs::read_to_string(folder.join("THIRD-PARTY")).unwrap();
    let packages = list.lines().filter_map(|line| line.split_once(": ")?.0.split_once(' '));
    let folders: Vec<PathBuf> = packages
        .filter(|(_, version)| version.starts_with(|first: char| first.is_ascii_digit()))
        .map(|(name, version)| folder.join(format!("{name}-{version}")))
        .collect();
    assert!(folders.iter().any(|folder| folder.to_string_lossy().contains("/sha2-")), "{list}");
    for folder in folders {
        assert!(folder.read_dir().unwrap().next().is_some(), "{}", folder.display());
    }
    for other in ["tcpx-core", "serde_derive", "cc "] {
        assert!(!list.contains(other), "{other} is not third-party code in the library");
    }
}

/// Makes one of the examples, or all.
fn with_cmake(build: &Path, target: &str, options: &[&str]) {
    let mut configure = Command::new("cmake");
    run(configure.arg("-S").arg(root().join("examples")).arg("-B").arg(build).args(options));
    run(Command::new("cmake").arg("--build").arg(build).args(["--target", target]));
}
