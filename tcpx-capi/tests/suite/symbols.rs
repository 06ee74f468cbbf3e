//! Symbols that the shared library exports, and those that it imports.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::toolchain::{library, root, tool};

fn dynamic_section() -> String {
    tool("readelf", &[OsStr::new("-dW"), library("libtcpx_p2p.so").as_os_str()])
}

/// Names without their versions, which are symbols too, of kind A.
fn symbols(which: &str) -> BTreeSet<String> {
    let library = library("libtcpx_p2p.so");
    let text = tool("nm", &[OsStr::new("-D"), OsStr::new(which), library.as_os_str()]);
    let names = text.lines().filter(|line| !line.contains(" A "));
    let names = names.filter_map(|line| line.split_whitespace().last()?.split('@').next());
    names.map(str::to_owned).collect()
}

fn committed() -> BTreeSet<String> {
    include_str!("../../exports.txt").lines().map(str::to_owned).collect()
}

#[test]
fn exactly_the_committed_names_are_exported() {
    assert_eq!(symbols("--defined-only"), committed());
}

#[test]
fn the_header_declares_exactly_the_exported_names() {
    let header = std::fs::read_to_string(root().join("include/tcpx_p2p.h")).unwrap();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| !line.trim_start().starts_with(['*', '/', '#']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("tcpx_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(declared, committed());
}

#[test]
fn the_soname_has_the_abi_version() {
    let soname = format!("[libtcpx_p2p.so.{}]", tcpx_p2p::TCPX_ABI_VERSION);
    let section = dynamic_section();
    let line = section.lines().find(|line| line.contains("(SONAME)")).unwrap();
    assert!(line.ends_with(&soname), "{line}");
}

#[test]
fn code_is_never_patched_and_the_library_stays_loaded() {
    let section = dynamic_section();
    assert!(!section.contains("TEXTREL"), "{section}");
    assert!(section.contains("NODELETE"), "{section}");
}

#[test]
fn nothing_but_the_c_library_is_needed() {
    let section = dynamic_section();
    let needed = section.lines().filter(|line| line.contains("(NEEDED)"));
    let allowed = ["libgcc_s.", "libc.", "libm.", "libpthread.", "libdl.", "librt.", "ld-linux"];
    for line in needed {
        let name = line.split(['[', ']']).nth(1).unwrap();
        assert!(allowed.iter().any(|allowed| name.starts_with(allowed)), "{name} is needed");
    }
}

#[test]
fn nothing_of_cuda_is_left_to_be_found() {
    let is_cuda = |name: &String| {
        let rest = name.strip_prefix("cuda").or(name.strip_prefix("cu"));
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    assert_eq!(symbols("--undefined-only").iter().filter(|name| is_cuda(name)).count(), 0);
}
