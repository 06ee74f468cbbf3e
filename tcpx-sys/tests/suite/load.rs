#![allow(unsafe_code)]
//! Every way in which a file fails to be a plugin is its own [`LoadError`].

use std::path::{Path, PathBuf};

use tcpx_sys::{HEALTH_SYMBOL, LoadError, Plugin, READINESS_SYMBOL, SYMBOL};

use crate::fixture;

const SHARED: &[&str] = &["-shared", "-fPIC"];
const NAMES: &[&str] = &["GPUDirectTCPX_v7"];
/// Members after `name`, in order; `regMrDmaBuf` is the eighth.
const MEMBERS: [&str; 18] = [
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "accept",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "isend",
    "irecv",
    "iflush",
    "test",
    "closeSend",
    "closeRecv",
    "closeListen",
    "getDeviceMr",
    "irecvConsumed",
];

fn load(path: &Path, names: &[&str]) -> Result<Plugin, LoadError> {
    // SAFETY: the files are fixtures of this test; their tables hold functions, and none is called
    // through them.
    unsafe { Plugin::load(path, names) }
}

/// C text of a table in which the members of `null` are NULL.
fn table(name: &str, null: &[&str]) -> String {
    let members: String =
        MEMBERS.iter().map(|m| if null.contains(m) { ", 0" } else { ", called" }).collect();
    format!(
        "static int called(void) {{ return 0; }}\n\
         typedef int (*member)(void);\n\
         struct {{ const char *name; member members[18]; }} {SYMBOL} = {{ {name}, {{ {} }} }};\n",
        members.trim_start_matches(", ")
    )
}

fn library(folder: &Path, output: &str, source: &str) -> PathBuf {
    fixture::compile(folder, output, source, SHARED)
}

#[test]
fn a_whole_table_loads_with_dma_buf_set_or_null() {
    let folder = tempfile::tempdir().expect("folder");
    let source = table("\"GPUDirectTCPX_v7\"", &["regMrDmaBuf"]);
    let plugin = load(&library(folder.path(), "whole.so", &source), NAMES).expect("loads");
    assert_eq!(plugin.name(), "GPUDirectTCPX_v7");
    assert!(plugin.table().reg_mr_dma_buf.is_none());
    assert_eq!(plugin.path(), folder.path().join("whole.so"));

    let source = table("\"GPUDirectTCPX_v7\"", &[]);
    let plugin = load(&library(folder.path(), "dmabuf.so", &source), NAMES).expect("loads");
    assert!(plugin.table().reg_mr_dma_buf.is_some());
}

#[test]
fn each_addition_is_found_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("folder");
    let table = table("\"TCPXSoft_v7\"", &[]);
    for symbol in [HEALTH_SYMBOL, READINESS_SYMBOL] {
        for (output, addition, is_found) in [
            ("none", String::new(), false),
            ("whole", format!("member {symbol}[2] = {{ called, called }};\n"), true),
            ("half", format!("member {symbol}[2] = {{ called, 0 }};\n"), false),
            ("longer", format!("member {symbol}[3] = {{ called, called, called }};\n"), false),
            ("pointer", format!("member *{symbol};\n"), false),
        ] {
            let output = format!("{output}-{symbol}.so");
            let path = library(folder.path(), &output, &(table.clone() + &addition));
            let plugin = load(&path, &["TCPXSoft_v7"]).expect("it is a plugin either way");
            let found = (plugin.health().is_some(), plugin.readiness().is_some());
            let wanted = |name| is_found && symbol == name;
            assert_eq!(found, (wanted(HEALTH_SYMBOL), wanted(READINESS_SYMBOL)), "{output}");
        }
    }
}

#[test]
fn a_missing_file_is_missing() {
    let folder = tempfile::tempdir().expect("folder");
    for path in [folder.path().join("absent.so"), folder.path().to_owned()] {
        let error = load(&path, NAMES).expect_err("nothing there");
        assert!(
            matches!(&error, LoadError::Missing { path: named } if *named == path),
            "{error:?}"
        );
        assert!(error.to_string().contains(path.to_str().expect("text")), "{error}");
    }
}

#[test]
fn a_bare_name_means_the_working_folder_and_not_the_library_path() {
    // dlopen finds libc by its bare name; there is no such file here, so it must count as missing.
    let error = load(Path::new("libc.so.6"), NAMES).expect_err("no such file here");
    assert!(matches!(error, LoadError::Missing { .. }), "{error:?}");
}

#[test]
fn a_file_that_is_no_library_fails_with_the_linkers_message() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("text.so");
    std::fs::write(&path, "This is not ELF. ".repeat(64)).expect("write");
    let error = load(&path, NAMES).expect_err("not a library");
    let LoadError::Open { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("invalid ELF header"), "{reason}");
}

#[test]
fn a_library_that_lacks_a_dependency_cannot_be_opened() {
    let folder = tempfile::tempdir().expect("folder");
    let source = format!(
        "extern int absent_function(void);\nint (*{SYMBOL}[19])(void) = {{ absent_function }};\n"
    );
    let error =
        load(&library(folder.path(), "dangling.so", &source), NAMES).expect_err("cannot resolve");
    let LoadError::Open { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("absent_function"), "{reason}");
}

#[test]
fn a_library_without_the_symbol_is_no_plugin() {
    let folder = tempfile::tempdir().expect("folder");
    let path = library(folder.path(), "other.so", "int ncclNetPlugin_v6[38];\n");
    let error = load(&path, NAMES).expect_err("no v7 symbol");
    assert!(matches!(error, LoadError::MissingSymbol { .. }), "{error:?}");
}

#[test]
fn a_symbol_that_only_points_to_a_table_is_of_the_wrong_size() {
    let folder = tempfile::tempdir().expect("folder");
    let source = format!("static const char *table[19];\nconst char **{SYMBOL} = table;\n");
    let error = load(&library(folder.path(), "pointer.so", &source), NAMES).expect_err("a pointer");
    assert!(matches!(error, LoadError::WrongSize { found: 8, expected: 152, .. }), "{error:?}");
}

#[test]
fn a_null_member_is_named_as_c_names_it() {
    let folder = tempfile::tempdir().expect("folder");
    for member in MEMBERS.iter().copied().filter(|&m| m != "regMrDmaBuf") {
        let source = table("\"GPUDirectTCPX_v7\"", &[member]);
        let path = library(folder.path(), &format!("without-{member}.so"), &source);
        match load(&path, NAMES) {
            Err(LoadError::NullMember { member: named, .. }) => assert_eq!(named, member),
            other => panic!("{member}: {other:?}"),
        }
    }
    let path = library(folder.path(), "nameless.so", &table("0", &[]));
    let error = load(&path, NAMES).expect_err("no name");
    assert!(matches!(error, LoadError::NullMember { member: "name", .. }), "{error:?}");
}

#[test]
fn a_plugin_of_another_name_is_refused_unless_any_name_will_do() {
    let folder = tempfile::tempdir().expect("folder");
    // Another kind may have NULL members of its own: the reader needs the name
    // about.
    let path = library(folder.path(), "ofi.so", &table("\"AWS Libfabric\"", &["iflush"]));
    let error = load(&path, NAMES).expect_err("another vendor");
    let LoadError::WrongName { found, expected, .. } = &error else { panic!("{error:?}") };
    assert_eq!(
        (found.as_str(), expected.as_slice()),
        ("AWS Libfabric", &["GPUDirectTCPX_v7".to_string()][..])
    );

    let path = library(folder.path(), "soft.so", &table("\"TCPXSoft_v7\"", &[]));
    assert_eq!(load(&path, &[]).expect("any name").name(), "TCPXSoft_v7");
}
